# Tokenizer, templates, prompt sets, sampler.
kvt_test(test_bpe LABEL unit MODULES capture SOURCES test_bpe.c)
kvt_test(test_tokenizer LABEL unit MODULES capture SOURCES test_tokenizer.c)
kvt_test(test_spm LABEL unit MODULES capture SOURCES test_spm.c)
kvt_test(test_tokenizer_json LABEL unit MODULES capture SOURCES test_tokenizer_json.c)
kvt_test(test_template LABEL unit MODULES capture SOURCES test_template.c)
kvt_test(test_prompts LABEL unit MODULES capture SOURCES test_prompts.c)
kvt_test(test_sample LABEL unit MODULES capture SOURCES test_sample.c)
