# The kernels of the CUDA device, for nvcc (compute/) and for the host shim (tests/gpu/).
set(KVT_CUDA_KERNELS
  probe.cu
  act.cu add.cu cast.cu dequant.cu embed.cu gemv.cu merge.cu moments.cu norms.cu record.cu rmsnorm.cu
  rope.cu softmax.cu top.cu
)
list(TRANSFORM KVT_CUDA_KERNELS PREPEND ${PROJECT_SOURCE_DIR}/compute/cuda/)

# Those that must agree with the host in every bit: no product is fused with a sum.
set(KVT_CUDA_EXACT
  dequant.cu embed.cu
)
list(TRANSFORM KVT_CUDA_EXACT PREPEND ${PROJECT_SOURCE_DIR}/compute/cuda/)
