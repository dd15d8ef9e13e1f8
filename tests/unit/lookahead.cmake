# Training of lookahead tokens: the same sources in f32 (module train) and in f64.
set(root ${PROJECT_SOURCE_DIR})
add_library(train_f64 OBJECT ${root}/tests/train_toy.c ${root}/train/lookahead.c
  ${root}/train/lookahead_attend.c ${root}/train/lookahead_linear.c
  ${root}/train/lookahead_steps.c)
target_include_directories(train_f64 PRIVATE ${root} ${root}/include ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(train_f64 PRIVATE TRAIN_DOUBLE)
target_link_libraries(train_f64 PRIVATE kvt_flags kvt_dep_openmp)

kvt_test(test_adamw LABEL unit MODULES train SOURCES test_adamw.c)
kvt_test(test_train_math LABEL unit MODULES train
  SOURCES test_train_math.c ${root}/tests/train_toy.c $<TARGET_OBJECTS:train_f64>)
