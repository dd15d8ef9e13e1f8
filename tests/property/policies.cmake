kvt_test(test_policies LABEL property MODULES replay SOURCES test_policies.c ../mini.c ../toy.c)
kvt_test(test_engine_mini LABEL property MODULES replay
  SOURCES test_engine_mini.c ../mini.c ../toy.c)
