# The best schedule of irreversible eviction.
kvt_test(test_assign LABEL unit MODULES replay SOURCES test_assign.c assign_small.c ../toy.c)
