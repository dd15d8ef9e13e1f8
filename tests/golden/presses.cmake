kvt_test(test_golden_presses LABEL golden MODULES replay
  SOURCES test_golden_presses.c cells.c presses.c ../mini.c ../mini_cut.c ../toy.c)
