# The kernels of the CUDA device, for nvcc (compute/) and for the host shim (tests/gpu/).
set(KVT_CUDA_KERNELS
)
list(TRANSFORM KVT_CUDA_KERNELS PREPEND ${PROJECT_SOURCE_DIR}/compute/cuda/)
