# Tests of base/: a program a file.
foreach(name arena buf ctx digest err file grid half json param rng select size text version view)
  kvt_test(test_${name} LABEL unit MODULES base SOURCES test_${name}.c)
  if(KVT_ALLOC_PASS) # counts of allocations differ
    target_compile_definitions(test_${name} PRIVATE KVT_ALLOC_PASS)
  endif()
endforeach()
kvt_test(test_regex LABEL unit MODULES base LIBRARIES threads SOURCES test_regex.c)
