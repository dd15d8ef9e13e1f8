# Tests of the cost model: fit.
