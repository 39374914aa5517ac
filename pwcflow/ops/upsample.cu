// What a decoder hands to the next finer level: its flow and its feature at twice the size.
//
// Types: __half __nv_bfloat16 float

#include "tensor.cuh"

constexpr int SIDE = 4;      // of the transposed convolution's kernel, at stride 2 and padding 1
constexpr int CHANNELS = 8;  // of `packed`: flow 2, feature 2, zeros 4

template <typename T>
struct alignas(16) Packed {
    T values[CHANNELS];
};

// decoded (N, 16, h, w): flow 2, feature 2 x 2 x 2, gap 6 -> flow (N, 2, 2h, 2w), a transposed
// convolution of the flow with weight (2, 2, 4, 4), from input to output, and bias (2). In packed (N,
// 8, 2h, 2w), channels-last, the flow goes to channels 0 and 1, the feature to 2 and 3: its channel k
// of pixel (2y + i, 2x + j) is 2 + 4 k + 2 i + j of `decoded`. The rest becomes zero. One thread a
// pixel of `flow`, of which there are `pixels`.
template <typename T>
__global__ void upsample_flow(const T* __restrict__ decoded, const float* __restrict__ weight,
                              const float* __restrict__ bias, float* __restrict__ flow,
                              T* __restrict__ packed, Strides of_decoded, Strides of_flow,
                              Strides of_packed, int height, int width, long long pixels) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= pixels) return;
    const int x = static_cast<int>(index % width), y = static_cast<int>(index / width % height);
    const long long n = index / width / height;
    decoded += n * of_decoded.n;
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
                const float value = widen(
                    decoded[c * of_decoded.c + from_y * of_decoded.h + from_x * of_decoded.w]);
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    sum[k] += value * weight[((c * 2 + k) * SIDE + ky) * SIDE + kx];
                }
            }
        }
    }
    Packed<T> pack;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        flow[n * of_flow.n + k * of_flow.c + y * of_flow.h + x * of_flow.w] = sum[k];
        pack.values[k] = narrow<T>(sum[k]);
    }
    const T* feature = decoded + y / 2 * of_decoded.h + x / 2 * of_decoded.w +
                       (2 + 2 * (y % 2) + x % 2) * of_decoded.c;
#pragma unroll
    for (int k = 0; k < 2; ++k) pack.values[2 + k] = feature[4 * k * of_decoded.c];
#pragma unroll
    for (int k = 4; k < CHANNELS; ++k) pack.values[k] = narrow<T>(0.0f);
    *reinterpret_cast<Packed<T>*>(packed + n * of_packed.n + y * of_packed.h + x * of_packed.w) = pack;
}
