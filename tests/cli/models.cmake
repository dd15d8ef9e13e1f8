# Model files and captures by the command line, on files that are written from the formats' descriptions.
add_test(NAME test_models
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_models.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR} good device)
add_test(NAME test_models_text
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_models.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR} text)
add_test(NAME test_models_bad
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_models.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR} bad cut)
add_test(NAME test_models_memory
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_models.sh $<TARGET_FILE:kvt> ${PROJECT_SOURCE_DIR} memory)
set_tests_properties(test_models test_models_text test_models_bad test_models_memory
                     PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 600)
