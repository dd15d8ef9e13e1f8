# Probes and adapters: extra rows on a stored prompt.
set(tiny ${PROJECT_SOURCE_DIR}/tests/gguf_make.c ${PROJECT_SOURCE_DIR}/tests/model_make.c)
kvt_test(test_adapter LABEL unit MODULES capture SOURCES test_adapter.c)
kvt_test(test_probe_run LABEL unit MODULES capture
  SOURCES test_probe_run.c ${PROJECT_SOURCE_DIR}/tests/naive.c ${tiny})
kvt_test(test_live_probes LABEL unit MODULES live SOURCES test_live_probes.c ${tiny})
