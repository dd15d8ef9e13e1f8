# Tokenizer against ids from outside; golden_strings feeds tokens.py, which makes those ids.
kvt_test(test_tokens LABEL golden MODULES capture SOURCES test_tokens.c strings.c)
add_executable(golden_strings strings_main.c strings.c)
target_link_libraries(golden_strings PRIVATE kvt_flags)
kvt_test(test_vectors LABEL golden MODULES capture SOURCES test_vectors.c)
kvt_test(test_vocabularies LABEL golden MODULES capture SOURCES test_vocabularies.c strings.c)
kvt_test(test_tokenizer_files LABEL golden MODULES capture SOURCES test_tokenizer_files.c strings.c)
kvt_test(test_templates LABEL golden MODULES capture SOURCES test_templates.c)
