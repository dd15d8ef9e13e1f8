kvt_test(test_skip_laws LABEL property MODULES replay SOURCES test_skip_laws.c laws.c ${kvt_toys})
