add_test(NAME test_bad_policies
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_bad_policies.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR}
                 $<TARGET_FILE:make_gguf> $<TARGET_FILE:make_synth>)
set_tests_properties(test_bad_policies PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
