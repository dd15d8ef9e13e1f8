# Tests of traces/.
foreach(name trace)
  kvt_test(test_${name} LABEL unit MODULES traces SOURCES test_${name}.c ../synth.c)
endforeach()
