add_test(NAME test_cli_train COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_train.sh $<TARGET_FILE:kvt>
                                     ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
set_tests_properties(test_cli_train PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
add_test(NAME test_cli_train_arch COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_train_arch.sh $<TARGET_FILE:kvt>
                                          ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
set_tests_properties(test_cli_train_arch PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
