# Tokenizer and prompt sets.
foreach(target tokenizer tokenizer_json prompts)
  add_executable(fuzz_${target} fuzz_${target}.c driver.c)
  kvt_link(fuzz_${target} capture)
  add_test(NAME fuzz_${target} COMMAND fuzz_${target} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${target} 500
                                       ${CMAKE_CURRENT_BINARY_DIR}/fuzz_${target}.last)
  set_tests_properties(fuzz_${target} PROPERTIES LABELS fuzz TIMEOUT 300)
endforeach()
