# Policies that look through the last prompt queries, against formulae in double.
foreach(name window stage)
  kvt_test(test_${name}_laws LABEL property MODULES replay
    SOURCES test_${name}_laws.c window_laws.c laws.c ${kvt_toys})
endforeach()
