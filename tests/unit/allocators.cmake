kvt_test(test_allocators LABEL unit MODULES replay SOURCES test_allocators.c)
