# kvt cost.
add_test(NAME test_cli_cost
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_cost.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR})
set_tests_properties(test_cli_cost PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 900)
add_test(NAME test_cli_doctor_bench
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_doctor_bench.sh $<TARGET_FILE:kvt>
                 ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
set_tests_properties(test_cli_doctor_bench PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 900)
add_test(NAME test_cli_cost_laws
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_cost_laws.sh $<TARGET_FILE:kvt>
                 ${PROJECT_SOURCE_DIR})
set_tests_properties(test_cli_cost_laws PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 600)
