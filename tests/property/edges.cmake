kvt_test(test_registry_check LABEL property MODULES replay SOURCES test_registry_check.c)
kvt_test(test_everything LABEL property MODULES replay TIMEOUT 600
  SOURCES test_everything.c hard_traces.c ../runs.c ../synth.c ../synth_probe.c ../synth_scorer.c)
