# Kernels against their definitions: NAME in the shim, and NAME_gpu on a GPU, where this build compiles
# for one (it exits with 77 where there is none).
set_source_files_properties(device_shim.c PROPERTIES COMPILE_DEFINITIONS KVT_SHIM="tests/gpu/shim.h")

function(kvt_kernel_test name)
  kvt_gpu_test(${name} SOURCES ${name}.c lab.c device_shim.c)
  if(KVT_HAVE_CUDA)
    kvt_test(${name}_gpu LABEL gpu MODULES compute SOURCES ${name}.c lab.c device_cuda.c)
  endif()
endfunction()

kvt_kernel_test(test_kernels_logits)
kvt_kernel_test(test_kernels_record)
kvt_kernel_test(test_kernels_rows)
kvt_kernel_test(test_kernels_values)

# Memory that no GPU has: of the shim only, so not one of the test_kernels_*.c that scripts/gpu-check builds.
kvt_gpu_test(test_far NO_RACES SOURCES test_far.c device_shim.c)

# The definitions themselves.
kvt_test(test_device_host LABEL unit MODULES capture SOURCES test_device_host.c)
target_link_libraries(test_device_host PRIVATE kvt_dep_openmp)
