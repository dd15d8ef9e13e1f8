# Tests of what scorers are trained with.
kvt_test(test_running LABEL unit MODULES base SOURCES test_running.c)
