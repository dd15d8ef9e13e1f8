# Files of models and machines of the cost model.
add_executable(fuzz_cost_data fuzz_cost_data.c driver.c)
kvt_link(fuzz_cost_data replay)
add_test(NAME fuzz_cost_data COMMAND fuzz_cost_data ${CMAKE_CURRENT_SOURCE_DIR}/corpus/cost_data 500
                                     ${CMAKE_CURRENT_BINARY_DIR}/fuzz_cost_data.last)
set_tests_properties(fuzz_cost_data PROPERTIES LABELS fuzz TIMEOUT 300)
