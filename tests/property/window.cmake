# Policies that look through the last prompt queries, against formulae in double.
kvt_test(test_window_laws LABEL property MODULES replay SOURCES test_window_laws.c laws.c ${kvt_toys})
