# Trace files, scorer files, safetensors; CSV and .npy headers.
foreach(target trace csv scorer tensors)
  add_executable(fuzz_${target} fuzz_${target}.c driver.c)
  kvt_link(fuzz_${target} traces)
  add_test(NAME fuzz_${target} COMMAND fuzz_${target} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${target} 500
                                       ${CMAKE_CURRENT_BINARY_DIR}/fuzz_${target}.last)
  set_tests_properties(fuzz_${target} PROPERTIES LABELS fuzz TIMEOUT 300
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
endforeach()
