// What a decoder hands to the next finer level: its flow at twice the size, beside its feature.
//
// Types: __half __nv_bfloat16 float

#include "tensor.cuh"

constexpr int SIDE = 4;      // of the transposed convolution's kernel, at stride 2 and padding 1
constexpr int CHANNELS = 8;  // of `packed`: flow 2, feature 2, zeros 4

template <typename T>
struct alignas(16) Packed {
    T values[CHANNELS];
};

// coarse (N, 2, h, w) -> flow (N, 2, 2h, 2w), a transposed convolution with weight (2, 2, 4, 4), from
// input to output, and bias (2). In packed (N, 8, 2h, 2w), channels-last, the flow goes to channels
// 0 and 1, feature_bias (2) is added to 2 and 3, and the rest becomes zero. One thread a pixel of
// `flow`, of which there are `pixels`.
template <typename T>
__global__ void upsample_flow(const float* __restrict__ coarse, const float* __restrict__ weight,
                              const float* __restrict__ bias, const float* __restrict__ feature_bias,
                              float* __restrict__ flow, T* __restrict__ packed, Strides of_coarse,
                              Strides of_flow, Strides of_packed, int height, int width,
                              long long pixels) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= pixels) return;
    const int x = static_cast<int>(index % width), y = static_cast<int>(index / width % height);
    const long long n = index / width / height;
    coarse += n * of_coarse.n;
    float sum[2] = {bias[0], bias[1]};
    // Pixel y sees tap ky of coarse pixel (y + 1 - ky) / 2 where that is whole: two taps an axis.
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int ky = (y + 1) % 2 + 2 * i, from_y = (y + 1 - ky) / 2;
        if (y + 1 < ky || from_y >= height / 2) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int kx = (x + 1) % 2 + 2 * j, from_x = (x + 1 - kx) / 2;
            if (x + 1 < kx || from_x >= width / 2) continue;
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const float value =
                    coarse[c * of_coarse.c + from_y * of_coarse.h + from_x * of_coarse.w];
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    sum[k] += value * weight[((c * 2 + k) * SIDE + ky) * SIDE + kx];
                }
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        flow[n * of_flow.n + k * of_flow.c + y * of_flow.h + x * of_flow.w] = sum[k];
    }
    Packed<T>* place = reinterpret_cast<Packed<T>*>(packed + n * of_packed.n + y * of_packed.h +
                                                    x * of_packed.w);
    Packed<T> pack = *place;
#pragma unroll
    for (int k = 0; k < CHANNELS; ++k) {
        const float value = k < 2 ? sum[k] : k < 4 ? widen(pack.values[k]) + feature_bias[k - 2] : 0.0f;
        pack.values[k] = narrow<T>(value);
    }
    *place = pack;
}
