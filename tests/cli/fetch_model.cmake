# The script that gets the first model, without a network.
add_test(NAME fetch_model COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_fetch_model.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(fetch_model PROPERTIES LABELS cli TIMEOUT 120 SKIP_RETURN_CODE 77)
