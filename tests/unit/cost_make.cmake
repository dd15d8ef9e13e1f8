# Tests of the cost model: its table, from a spec to rows.
kvt_test(test_cost_make LABEL unit MODULES replay SOURCES test_cost_make.c cost_make.c)
kvt_test(test_cost_make_lengths LABEL unit MODULES replay SOURCES test_cost_make_lengths.c)
kvt_test(test_cost_make_bad LABEL unit MODULES replay SOURCES test_cost_make_bad.c cost_make.c)
kvt_test(test_cost_make_replay LABEL unit MODULES replay
  SOURCES test_cost_make_replay.c cost_make.c ../runs.c ../synth.c)
