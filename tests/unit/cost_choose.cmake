# Tests of the cost model: choose.
