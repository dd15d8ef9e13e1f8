# Tests of base/: a program a file.
foreach(name arena buf ctx err grid half param rng select size text view)
  kvt_test(test_${name} LABEL unit MODULES base SOURCES test_${name}.c)
endforeach()
