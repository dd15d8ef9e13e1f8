# Policies that read keys, values and moments of queries, against formulae in double.
foreach(name geometry_laws geometry_forms geometry_edges)
  kvt_test(test_${name} LABEL property MODULES replay SOURCES test_${name}.c laws.c ${kvt_toys})
endforeach()
