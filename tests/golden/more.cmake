kvt_test(test_golden_more LABEL golden MODULES replay
  SOURCES test_golden_more.c cells.c lanes.c ../runs.c ../mini.c ../mini_cut.c ../toy.c ../toy_more.c
          ../synth.c ../synth_probe.c ../synth_scorer.c)
