# Tests of the cost model: this machine, measured.
kvt_test(test_cost_bench LABEL unit MODULES live
  SOURCES test_cost_bench.c ${PROJECT_SOURCE_DIR}/tests/gguf_make.c ${PROJECT_SOURCE_DIR}/tests/model_make.c)
