# The text of policy parameters.
add_executable(fuzz_param fuzz_param.c driver.c)
kvt_link(fuzz_param base)
add_test(NAME fuzz_param COMMAND fuzz_param ${CMAKE_CURRENT_SOURCE_DIR}/corpus/param 2000
                                 ${CMAKE_CURRENT_BINARY_DIR}/fuzz_param.last)
set_tests_properties(fuzz_param PROPERTIES LABELS fuzz TIMEOUT 300)
