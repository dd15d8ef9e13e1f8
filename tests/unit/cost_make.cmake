# Tests of the cost model: its table, from a spec to rows.
kvt_test(test_cost_make LABEL unit MODULES replay SOURCES test_cost_make.c ../runs.c ../synth.c)
