# Model files: GGUF, block types, architectures, weights.
set(gguf_make ${PROJECT_SOURCE_DIR}/tests/gguf_make.c ${PROJECT_SOURCE_DIR}/tests/model_make.c)
kvt_test(test_quant LABEL unit MODULES compute SOURCES test_quant.c)
kvt_test(test_matvec LABEL unit MODULES compute SOURCES test_matvec.c)
kvt_test(test_gguf LABEL unit MODULES capture SOURCES test_gguf.c ${gguf_make})
kvt_test(test_gguf_rules LABEL unit MODULES capture SOURCES test_gguf_rules.c ${gguf_make})
kvt_test(test_arch LABEL unit MODULES capture SOURCES test_arch.c ${gguf_make})
kvt_test(test_weights LABEL unit MODULES capture SOURCES test_weights.c ${gguf_make})
kvt_test(test_checkpoint LABEL unit MODULES capture
  SOURCES test_checkpoint.c ${gguf_make} ${PROJECT_SOURCE_DIR}/tests/model_make_folder.c)
kvt_test(test_identity LABEL unit MODULES capture SOURCES test_identity.c ${gguf_make})
kvt_test(test_config LABEL unit MODULES capture SOURCES test_config.c)
kvt_test(test_padding LABEL unit MODULES capture SOURCES test_padding.c ${gguf_make})
kvt_test(test_refused_models LABEL unit MODULES capture LIBRARIES jansson SOURCES test_refused_models.c)
