// Backward warping of channels-last features: what pwcflow.warp.backward_warp computes.
//
// The threads of a block lie over the channels of some neighbouring pixels of one image; grids and
// blocks are one-dimensional. Every size is an argument and every offset is 64-bit; one image has
// fewer than 2^31 pixels. Positions and sums are float (double for double).
//
// The kernel `warp_features_packs` moves 16 bytes at a time: every pixel must begin at a multiple
// of 16 bytes and C must be a multiple of what 16 bytes hold. `warp_features_scalars` takes any C.

#include "tensor.cuh"

constexpr int THREADS = 256;
constexpr double MINIMUM_COVERAGE = 0.999;  // as in pwcflow.warp

// The coordinate on one axis that pixel `index` samples. __fmul_rn keeps the product from being
// fused into the sum, which would move the edge of what is covered.
template <typename S>
__device__ S sampled_position(int index, float flow, float scale, int size) {
    if (size == 1) return S(0);
    return static_cast<S>(index) + static_cast<S>(__fmul_rn(flow, scale));
}

// How much of a sample along one axis comes from inside the image, 0 to 1; 0 where `position` is
// not a number.
template <typename S>
__device__ S coverage(S position, int size) {
    const S from_start = position + S(1), to_end = static_cast<S>(size) - position;
    const S covered = from_start < to_end ? from_start : to_end;
    if (!(covered > S(0))) return S(0);
    return covered < S(1) ? covered : S(1);
}

// The two pixels of an axis between which a position in -1..size lies, and the share of each: none
// of one that is outside of the image, in whose place stands the one inside.
template <typename S>
struct Taps {
    int index[2];
    S share[2];

    __device__ Taps(S position, int size) {
        const S whole = floor(position);
        const int lower = static_cast<int>(whole), upper = lower + 1;
        const S upper_share = position - whole;
        index[0] = lower < 0 ? 0 : lower;
        index[1] = upper < size ? upper : size - 1;
        share[0] = lower < 0 ? S(0) : S(1) - upper_share;
        share[1] = upper < size ? upper_share : S(0);
    }
};

// feature (N, H, W, C), feature_pitch elements from pixel to pixel; flow (N, 2, H, W), the strides
// of whose axes are given in elements -> result as feature, result_pitch from pixel to pixel.
template <typename T, int WIDTH>
__device__ void warp_features(const T* __restrict__ feature, const float* __restrict__ flow,
                              T* __restrict__ result, float scale, long long feature_pitch,
                              long long result_pitch, long long image_stride,
                              long long component_stride, long long row_stride,
                              long long pixel_stride, int channels, int height, int width) {
    using S = typename Sum<T>::type;
    using P = Pack<T, WIDTH>;
    const unsigned packs = channels / WIDTH;
    const unsigned lanes = packs < THREADS ? packs : THREADS;
    const unsigned rows = THREADS / lanes;  // of lanes: a pixel each
    const unsigned lane = threadIdx.x % lanes, row = threadIdx.x / lanes;
    const unsigned pixels = static_cast<unsigned>(height) * static_cast<unsigned>(width);
    const unsigned blocks = (pixels + rows - 1) / rows;
    const unsigned pixel = blockIdx.x % blocks * rows + row;
    if (row >= rows || pixel >= pixels) return;
    const long long image = blockIdx.x / blocks;
    const int y = static_cast<int>(pixel / static_cast<unsigned>(width));
    const int x = static_cast<int>(pixel % static_cast<unsigned>(width));

    const float* vector = flow + image * image_stride + y * row_stride + x * pixel_stride;
    const S position_x = sampled_position<S>(x, vector[0], scale, width);
    const S position_y = sampled_position<S>(y, vector[component_stride], scale, height);
    const S covered_share = coverage(position_x, width) * coverage(position_y, height);
    const bool covered = covered_share > static_cast<S>(MINIMUM_COVERAGE);
    const Taps<S> across(covered ? position_x : S(0), width);
    const Taps<S> down(covered ? position_y : S(0), height);
    const T* corners[2][2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const long long line = image * height + down.index[j];
            corners[j][i] = feature + (line * width + across.index[i]) * feature_pitch;
        }
    }
    T* target = result + (image * pixels + pixel) * result_pitch;
    for (unsigned pack = lane; pack < packs; pack += lanes) {
        const unsigned c = pack * WIDTH;
        S sum[WIDTH] = {};
        if (covered) {
            P taken[2][2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    taken[j][i] = *reinterpret_cast<const P*>(corners[j][i] + c);
                }
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const S share = down.share[j] * across.share[i];
#pragma unroll
                    for (int k = 0; k < WIDTH; ++k) {
                        sum[k] += share * static_cast<S>(taken[j][i].values[k]);
                    }
                }
            }
        }
        P rounded;
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) rounded.values[k] = static_cast<T>(sum[k]);
        *reinterpret_cast<P*>(target + c) = rounded;
    }
}

template <typename T>
__global__ void warp_features_packs(const T* __restrict__ feature, const float* __restrict__ flow,
                                    T* __restrict__ result, float scale, long long feature_pitch,
                                    long long result_pitch, long long image_stride,
                                    long long component_stride, long long row_stride,
                                    long long pixel_stride, int channels, int height, int width) {
    warp_features<T, PACK_WIDTH<T>>(feature, flow, result, scale, feature_pitch, result_pitch,
                                    image_stride, component_stride, row_stride, pixel_stride,
                                    channels, height, width);
}

template <typename T>
__global__ void warp_features_scalars(const T* __restrict__ feature, const float* __restrict__ flow,
                                      T* __restrict__ result, float scale, long long feature_pitch,
                                      long long result_pitch, long long image_stride,
                                      long long component_stride, long long row_stride,
                                      long long pixel_stride, int channels, int height, int width) {
    warp_features<T, 1>(feature, flow, result, scale, feature_pitch, result_pitch, image_stride,
                        component_stride, row_stride, pixel_stride, channels, height, width);
}
