// A bias and LeakyReLU in one pass, and their gradients in another, over channels-last tensors.
//
// Tensors are (pixels, C), neighbouring channels together. Every size is an argument, every offset
// is 64-bit, and grids and blocks are one-dimensional, with THREADS threads a block. Sums are float
// (double for double) in a fixed order, so results repeat bit for bit.
//
// Kernels named `..._packs` move 16 bytes at a time: every pixel must begin at a multiple of 16 bytes
// and C must be a multiple of what 16 bytes hold. Those named `..._scalars` take any C.

#include "tensor.cuh"

#include "pixel_rows.cuh"

// y = leaky_relu(x + bias). From pixel to pixel of `x` it is `x_pitch` elements, of `y` `y_pitch`;
// the two may be the same tensor.
template <typename T, int WIDTH>
__device__ void bias_leaky_relu(const T* x, const T* __restrict__ bias, T* y,
                                typename Sum<T>::type slope, long long x_pitch,
                                long long y_pitch, long long pixels, int channels) {
    using S = typename Sum<T>::type;
    using P = Pack<T, WIDTH>;
    const Place place(channels / WIDTH);
    if (place.idle) return;
    const int c = place.pack * WIDTH;
    S added[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) added[i] = static_cast<S>(bias[c + i]);
    for (long long pixel = place.first_pixel(); pixel < pixels; pixel += place.pixel_step()) {
        P pack = *reinterpret_cast<const P*>(x + pixel * x_pitch + c);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            const S sum = static_cast<S>(pack.values[i]) + added[i];
            pack.values[i] = static_cast<T>(sum > S(0) ? sum : sum * slope);
        }
        *reinterpret_cast<P*>(y + pixel * y_pitch + c) = pack;
    }
}

// grad_x = grad where y > 0, else grad * slope; partial (C, chunks) = the sums of grad_x over the
// pixels of each chunk. From pixel to pixel of `grad` it is `grad_pitch` elements, of `y` `y_pitch`.
template <typename T, int WIDTH>
__device__ void bias_leaky_relu_backward(const T* __restrict__ grad, const T* __restrict__ y,
                                         T* __restrict__ grad_x,
                                         typename Sum<T>::type* __restrict__ partial,
                                         typename Sum<T>::type slope, long long grad_pitch,
                                         long long y_pitch, long long pixels, int channels) {
    using S = typename Sum<T>::type;
    using P = Pack<T, WIDTH>;
    const Place place(channels / WIDTH);
    const int c = place.pack * WIDTH;
    S sum[WIDTH] = {};
    if (!place.idle) {
        for (long long pixel = place.first_pixel(); pixel < pixels; pixel += place.pixel_step()) {
            P pack = *reinterpret_cast<const P*>(grad + pixel * grad_pitch + c);
            const P sign = *reinterpret_cast<const P*>(y + pixel * y_pitch + c);
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                S value = static_cast<S>(pack.values[i]);
                if (!(static_cast<S>(sign.values[i]) > S(0))) value *= slope;
                sum[i] += value;
                pack.values[i] = static_cast<T>(value);
            }
            *reinterpret_cast<P*>(grad_x + pixel * channels + c) = pack;
        }
    }
    store_sums<WIDTH>(place, sum, partial);
}

template <typename T>
__global__ void bias_leaky_relu_packs(const T* x, const T* __restrict__ bias, T* y,
                                      typename Sum<T>::type slope, long long x_pitch,
                                      long long y_pitch, long long pixels, int channels) {
    bias_leaky_relu<T, PACK_WIDTH<T>>(x, bias, y, slope, x_pitch, y_pitch, pixels, channels);
}

template <typename T>
__global__ void bias_leaky_relu_scalars(const T* x, const T* __restrict__ bias, T* y,
                                      typename Sum<T>::type slope, long long x_pitch,
                                      long long y_pitch, long long pixels, int channels) {
    bias_leaky_relu<T, 1>(x, bias, y, slope, x_pitch, y_pitch, pixels, channels);
}

template <typename T>
__global__ void bias_leaky_relu_backward_packs(const T* __restrict__ grad, const T* __restrict__ y,
                                               T* __restrict__ grad_x,
                                               typename Sum<T>::type* __restrict__ partial,
                                               typename Sum<T>::type slope, long long grad_pitch,
                                               long long y_pitch, long long pixels, int channels) {
    bias_leaky_relu_backward<T, PACK_WIDTH<T>>(grad, y, grad_x, partial, slope, grad_pitch,
                                               y_pitch, pixels, channels);
}

template <typename T>
__global__ void bias_leaky_relu_backward_scalars(const T* __restrict__ grad,
                                                 const T* __restrict__ y, T* __restrict__ grad_x,
                                                 typename Sum<T>::type* __restrict__ partial,
                                                 typename Sum<T>::type slope, long long grad_pitch,
                                                 long long y_pitch, long long pixels,
                                                 int channels) {
    bias_leaky_relu_backward<T, 1>(grad, y, grad_x, partial, slope, grad_pitch, y_pitch, pixels,
                                   channels);
}

// partial (C, chunks) -> grad_bias (C). A block owns one channel.
template <typename T>
__global__ void sum_partial_gradients(const typename Sum<T>::type* __restrict__ partial,
                                      T* __restrict__ grad_bias, int chunks) {
    using S = typename Sum<T>::type;
    __shared__ S sums[THREADS];
    const S* row = partial + static_cast<long long>(blockIdx.x) * chunks;
    S sum = 0;
    for (int i = threadIdx.x; i < chunks; i += THREADS) sum += row[i];
    sums[threadIdx.x] = sum;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) grad_bias[blockIdx.x] = static_cast<T>(sums[0]);
}
