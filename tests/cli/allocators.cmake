add_test(NAME test_cli_allocators
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_allocators.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR}
                 $<TARGET_FILE:make_gguf> $<TARGET_FILE:make_synth>)
set_tests_properties(test_cli_allocators PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
