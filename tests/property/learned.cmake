# Policies that look ahead or read learned weights, against formulae in double.
foreach(name lookahead scorer)
  kvt_test(test_${name}_laws LABEL property MODULES replay SOURCES test_${name}_laws.c laws.c ${kvt_toys})
endforeach()
