# The option parser links base/ only; the program as a whole is tested in tests/cli.
kvt_test(test_opt LABEL unit MODULES base SOURCES test_opt.c ${PROJECT_SOURCE_DIR}/cli/opt.c)

add_test(NAME test_layers COMMAND ${PROJECT_SOURCE_DIR}/tests/unit/test_layers.sh)
set_tests_properties(test_layers PROPERTIES LABELS unit)

kvt_test(test_table LABEL unit MODULES traces LIBRARIES smartcols jansson
  SOURCES test_table.c ${PROJECT_SOURCE_DIR}/cli/table.c ${PROJECT_SOURCE_DIR}/cli/wrap.c
          ${PROJECT_SOURCE_DIR}/cli/progress.c)

# Every public header compiles alone, as C17 and as C++17.
add_test(NAME test_headers COMMAND ${PROJECT_SOURCE_DIR}/tests/unit/test_headers.sh ${CMAKE_C_COMPILER})
set_tests_properties(test_headers PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
