# Every architecture against transformers and llama.cpp, on tiny models.
kvt_test(test_golden_arch LABEL golden MODULES capture LIBRARIES hdf5
         SOURCES test_golden_arch.c ${PROJECT_SOURCE_DIR}/tests/gguf_make.c
                 ${PROJECT_SOURCE_DIR}/tests/model_make.c ${PROJECT_SOURCE_DIR}/tests/model_make_folder.c)
