# Tests of the cost model: laws.
