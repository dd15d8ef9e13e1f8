# The engine against transformers, on the real model.
kvt_test(test_golden_forward LABEL golden MODULES capture LIBRARIES hdf5
         SOURCES test_golden_forward.c)
kvt_test(test_golden_capture LABEL golden MODULES capture SOURCES test_golden_capture.c)
