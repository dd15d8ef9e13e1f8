add_test(NAME test_cli_metrics
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_metrics.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR})
set_tests_properties(test_cli_metrics PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 120)
