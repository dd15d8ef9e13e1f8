# Tests of the cost model: memory.
