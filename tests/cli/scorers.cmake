add_test(NAME test_cli_train_scorers
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_train_scorers.sh $<TARGET_FILE:kvt>
                 ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf> $<TARGET_FILE:make_synth>)
set_tests_properties(test_cli_train_scorers PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 600)
