# Tokenizer, templates, prompt sets, sampler.
kvt_test(test_bpe LABEL unit MODULES capture SOURCES test_bpe.c)
kvt_test(test_tokenizer LABEL unit MODULES capture SOURCES test_tokenizer.c)
