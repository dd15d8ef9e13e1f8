# scripts/kvt_hf.py, with a Python that has torch and transformers ($KVT_PYTHON).
foreach(name kvt_hf kvt_hf_model)
  add_test(NAME test_${name}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR})
  set_tests_properties(test_${name} PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 600)
endforeach()
set_property(TEST test_kvt_hf_model PROPERTY LABELS cli real-model)

# The list of what was checked names tests that are there.
add_test(NAME test_models_list
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_models_list.sh ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR}
                 ${CMAKE_CTEST_COMMAND})
set_tests_properties(test_models_list PROPERTIES LABELS cli TIMEOUT 60)
