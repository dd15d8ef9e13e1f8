kvt_test(test_golden_attention LABEL golden MODULES replay
  SOURCES test_golden_attention.c cells.c scored.c ../mini.c ../mini_cut.c ../toy.c)
