kvt_test(test_golden_probes LABEL golden MODULES replay
  SOURCES test_golden_probes.c cells.c probes.c ../toy.c)
