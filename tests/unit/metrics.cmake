kvt_test(test_metrics LABEL unit MODULES replay SOURCES test_metrics.c)
kvt_test(test_replay_metrics LABEL unit MODULES replay
  SOURCES test_replay_metrics.c ../runs.c ../synth.c)
