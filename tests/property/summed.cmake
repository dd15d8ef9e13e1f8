# Policies that add up what queries looked at, against formulae in double.
kvt_test(test_summed_laws LABEL property MODULES replay SOURCES test_summed_laws.c laws.c ${kvt_toys})
