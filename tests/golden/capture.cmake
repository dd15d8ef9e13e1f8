# The engine against transformers, on the two real models.
kvt_test(test_golden_forward LABEL golden MODULES capture LIBRARIES hdf5
         SOURCES test_golden_forward.c)
kvt_test(test_golden_gemma LABEL golden MODULES capture LIBRARIES hdf5 TIMEOUT 600
         SOURCES test_golden_forward.c)
target_compile_definitions(test_golden_gemma PRIVATE GOLDEN_GEMMA)
kvt_test(test_golden_capture LABEL golden MODULES capture SOURCES test_golden_capture.c)
