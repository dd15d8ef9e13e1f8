# Captured traces against the format's description, computed again by numpy.
add_test(NAME test_check_trace
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_check_trace.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR})
set_tests_properties(test_check_trace PROPERTIES LABELS golden SKIP_RETURN_CODE 77 TIMEOUT 600
  ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
