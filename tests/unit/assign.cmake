# The best schedule of irreversible eviction.
kvt_test(test_assign LABEL unit MODULES replay SOURCES test_assign.c assign_small.c ../toy.c)
kvt_test(test_regret LABEL unit MODULES replay
  SOURCES test_regret.c assign_small.c ../runs.c ../synth.c ../toy.c)
kvt_test(test_oracle_output LABEL unit MODULES replay SOURCES test_oracle_output.c ../toy.c)
