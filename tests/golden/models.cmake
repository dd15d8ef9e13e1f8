# Model files against the gguf package.
kvt_test(test_smollm2 LABEL golden MODULES capture SOURCES test_smollm2.c)
