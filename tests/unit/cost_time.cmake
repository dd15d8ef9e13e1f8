# Tests of the cost model: time.
