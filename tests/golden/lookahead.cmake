# Training of lookahead tokens against torch; train_f64 is made by tests/unit/lookahead.cmake.
kvt_test(test_golden_train LABEL golden MODULES train
  SOURCES test_golden_train.c ${PROJECT_SOURCE_DIR}/tests/train_toy.c $<TARGET_OBJECTS:train_f64>)
kvt_test(test_train_model LABEL golden MODULES train
  SOURCES test_train_model.c ${PROJECT_SOURCE_DIR}/tests/train_rows.c)
add_test(NAME test_train_gemma3 COMMAND test_train_model gemma3-270m KVT_GEMMA)
set_tests_properties(test_train_gemma3 PROPERTIES LABELS golden TIMEOUT 300 SKIP_RETURN_CODE 77)
