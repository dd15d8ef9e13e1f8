add_test(NAME test_gpu_check COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/test_gpu_check.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(test_gpu_check PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 60)
