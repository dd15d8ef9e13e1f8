# Model files. ROUNDS changes of each file of the corpus.
add_executable(fuzz_gguf fuzz_gguf.c driver.c)
kvt_link(fuzz_gguf capture)
add_test(NAME fuzz_gguf COMMAND fuzz_gguf ${CMAKE_CURRENT_SOURCE_DIR}/corpus/gguf 2000
                                ${CMAKE_CURRENT_BINARY_DIR}/fuzz_gguf.last)
add_executable(fuzz_config fuzz_config.c driver.c)
kvt_link(fuzz_config capture)
add_test(NAME fuzz_config COMMAND fuzz_config ${CMAKE_CURRENT_SOURCE_DIR}/corpus/config 2000
                                  ${CMAKE_CURRENT_BINARY_DIR}/fuzz_config.last)
set_tests_properties(fuzz_gguf fuzz_config PROPERTIES LABELS fuzz TIMEOUT 300)
