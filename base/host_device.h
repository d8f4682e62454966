// `BRIM_HOST_DEVICE` before a function lets CUDA's compiler make it for the GPU too; any other
// compiler sees nothing. For short formulas that all devices share; `constexpr` functions need no
// mark. A function with the mark calls nothing that exists on the host alone, and throws nothing.
#pragma once

#ifdef __CUDACC__
#define BRIM_HOST_DEVICE __host__ __device__
#else
#define BRIM_HOST_DEVICE
#endif
