kvt_test(test_known_failures LABEL unit MODULES replay
  SOURCES test_known_failures.c ../runs.c ../synth.c)
