kvt_test(test_metrics LABEL unit MODULES replay SOURCES test_metrics.c)
