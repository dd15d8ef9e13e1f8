kvt_test(test_golden_scored LABEL golden MODULES replay
  SOURCES test_golden_scored.c cells.c scored.c ../mini.c ../mini_cut.c ../toy.c)
