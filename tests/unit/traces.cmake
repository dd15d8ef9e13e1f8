# Tests of traces/.
foreach(name trace trace_cache trace_bad trace_room trace_memory writer_later result csv import)
  kvt_test(test_${name} LABEL unit MODULES traces SOURCES test_${name}.c ../synth.c)
  set_tests_properties(test_${name} PROPERTIES ENVIRONMENT
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
endforeach()
kvt_test(test_probe LABEL unit MODULES traces SOURCES test_probe.c ../synth.c ../synth_probe.c)
set_tests_properties(test_probe PROPERTIES ENVIRONMENT
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
kvt_test(test_scorer LABEL unit MODULES traces SOURCES test_scorer.c ../synth.c ../synth_probe.c
                                                       ../synth_scorer.c)
set_tests_properties(test_scorer PROPERTIES ENVIRONMENT
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
kvt_test(test_tensors LABEL unit MODULES traces SOURCES test_tensors.c)
kvt_test(test_more_memory LABEL unit MODULES traces SOURCES test_more_memory.c ../synth.c
                                                            ../synth_probe.c)
set_tests_properties(test_more_memory PROPERTIES ENVIRONMENT
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
