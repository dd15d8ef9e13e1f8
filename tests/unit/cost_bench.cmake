# Tests of the cost model: bench.
