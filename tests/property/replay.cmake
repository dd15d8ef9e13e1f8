kvt_test(test_replay_laws LABEL property MODULES replay
  SOURCES test_replay_laws.c ../runs.c ../synth.c)
