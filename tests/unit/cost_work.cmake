# Tests of the cost model: work.
