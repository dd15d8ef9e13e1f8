# Kernels of the CPU.
kvt_test(test_rows LABEL unit MODULES compute SOURCES test_rows.c)
kvt_test(test_kernels LABEL unit MODULES compute SOURCES test_kernels.c)
