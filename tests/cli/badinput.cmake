# Bad input, as people meet it: each row is a command, its exit status, a part of its one line of
# error, and a folder in which nothing half-written may lie. A tiny random model stands in for a
# real one.
add_executable(make_gguf ../gguf_main.c ../gguf_make.c ../model_make.c ../model_make_folder.c)
kvt_link(make_gguf base)
foreach(name capture replay disk stop)
  add_test(NAME test_bad_${name}
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_bad_${name}.sh $<TARGET_FILE:kvt>
                   ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
  set_tests_properties(test_bad_${name} PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
endforeach()
add_test(NAME test_same COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_same.sh $<TARGET_FILE:kvt>
                                ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
set_tests_properties(test_same PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
add_test(NAME test_rows COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_rows.sh $<TARGET_FILE:kvt>
                                ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
set_tests_properties(test_rows PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
kvt_test(test_bad_memory LABEL cli MODULES cli
  SOURCES test_bad_memory.c ../gguf_make.c ../model_make.c)
add_test(NAME test_cli_weights COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_weights.sh $<TARGET_FILE:kvt>
                                       ${PROJECT_SOURCE_DIR} $<TARGET_FILE:make_gguf>)
set_tests_properties(test_cli_weights PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
