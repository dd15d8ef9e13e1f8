# Traces as files that other programs write and read.
foreach(name traces producer readers)
  add_test(NAME test_cli_${name}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR}
                   $<TARGET_FILE:make_synth>)
  set_tests_properties(test_cli_${name} PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
endforeach()
