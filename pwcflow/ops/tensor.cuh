// What the kernels share: the types that sums are taken in, packs of 16 bytes, and strides.
//
// pwcflow/cuda_kernels.py puts this text where a kernel's file includes it; it includes nothing of
// ours itself.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// What elements of type T are added up in.
template <typename T>
struct Sum {
    using type = float;
};
template <>
struct Sum<double> {
    using type = double;
};

// Spelt out because PyTorch's extension builds switch the implicit half conversions off.
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }

template <typename T>
__device__ __forceinline__ T narrow(typename Sum<T>::type value) {
    return value;
}
template <>
__device__ __forceinline__ __half narrow<__half>(float value) {
    return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

// Neighbouring elements that are loaded or stored at once; PACK_WIDTH of them are 16 bytes.
template <typename T, int WIDTH>
struct alignas(WIDTH * sizeof(T)) Pack {
    T values[WIDTH];
};
template <typename T>
constexpr int PACK_WIDTH = 16 / sizeof(T);

// Where the elements of a tensor (N, C, H, W) lie, in elements. Passed by value, as are its sizes.
struct Strides {
    long long n, c, h, w;
};
