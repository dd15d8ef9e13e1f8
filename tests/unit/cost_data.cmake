# Tests of the cost model: data.
