# The installed tree is enough for others: a program, and a plug-in that is built outside of it. Not
# with sanitizers: they would have to be in both.
if(NOT KVT_SANITIZE)
  add_test(NAME test_install
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_install.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR}
                   ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(test_install PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
