# The best schedule against every policy that evicts for good.
kvt_test(test_schedules LABEL property MODULES replay
  SOURCES test_schedules.c ../unit/assign_small.c ../toy.c)
