kvt_test(test_golden_policies LABEL golden MODULES replay
  SOURCES test_golden_policies.c cells.c ../mini.c ../mini_cut.c ../toy.c)
