# A model on a device: beside the processor, and what it takes.
set(device_pair ${PROJECT_SOURCE_DIR}/tests/device_pair.c ${PROJECT_SOURCE_DIR}/tests/gguf_make.c
                ${PROJECT_SOURCE_DIR}/tests/model_make.c)
kvt_test(test_device_capture LABEL unit MODULES capture SOURCES test_device_capture.c ${device_pair})
kvt_test(test_device_memory LABEL unit MODULES capture SOURCES test_device_memory.c)
