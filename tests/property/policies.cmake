kvt_test(test_policies LABEL property MODULES replay SOURCES test_policies.c ../mini.c ../toy.c)
