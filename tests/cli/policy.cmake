foreach(name policy policy_check plugin compare all_policies)
  add_test(NAME test_cli_${name}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR})
  set_tests_properties(test_cli_${name} PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
endforeach()
