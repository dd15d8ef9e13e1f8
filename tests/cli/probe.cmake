# kvt capture --probe.
add_test(NAME test_cli_probe COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_probe.sh $<TARGET_FILE:kvt>
                                     ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
set_tests_properties(test_cli_probe PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
