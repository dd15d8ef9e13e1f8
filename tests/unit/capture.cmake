# Running a model and recording it.
set(naive ${PROJECT_SOURCE_DIR}/tests/naive.c ${PROJECT_SOURCE_DIR}/tests/gguf_make.c
          ${PROJECT_SOURCE_DIR}/tests/model_make.c)
foreach(name forward forward_relations forward_types)
  kvt_test(test_${name} LABEL unit MODULES capture SOURCES test_${name}.c ${naive})
endforeach()
kvt_test(test_capture LABEL unit MODULES capture SOURCES test_capture.c ${naive})
foreach(name capture_facts capture_runs)
  kvt_test(test_${name} LABEL unit MODULES capture
    SOURCES test_${name}.c ${PROJECT_SOURCE_DIR}/tests/gguf_make.c ${PROJECT_SOURCE_DIR}/tests/model_make.c)
endforeach()
kvt_test(test_crew LABEL unit MODULES capture SOURCES test_crew.c LIBRARIES threads)
