# Training of lookahead tokens against torch; train_f64 is made by tests/unit/lookahead.cmake.
kvt_test(test_golden_train LABEL golden MODULES train
  SOURCES test_golden_train.c ${PROJECT_SOURCE_DIR}/tests/train_toy.c $<TARGET_OBJECTS:train_f64>)
kvt_test(test_train_model LABEL golden MODULES train SOURCES test_train_model.c)
