add_test(NAME test_cli_labels
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_labels.sh $<TARGET_FILE:kvt>
                 ${PROJECT_SOURCE_DIR}/traces/samples/dialogue.h5)
set_tests_properties(test_cli_labels PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 120)
