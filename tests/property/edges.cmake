kvt_test(test_registry_check LABEL property MODULES replay SOURCES test_registry_check.c)
