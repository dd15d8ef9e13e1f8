kvt_test(test_summed_cases LABEL unit MODULES replay
  SOURCES test_summed_cases.c ../mini.c ../mini_cut.c ../toy.c ../toy_more.c ../synth.c
    ../synth_probe.c ../synth_scorer.c)
