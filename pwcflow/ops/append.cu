// What a dense block does around its convolutions, in one pass each way: a layer's result gets its
// bias and LeakyReLU and is put in front of what the layer saw; and the gradients of the tensors
// that a layer's result became part of are added up.
//
// Tensors are channels-last: (pixels, C), or some channels of such ones, as the kernels of
// bias_leaky_relu.cu named `..._packs` take them.

#include "tensor.cuh"

#include "pixel_rows.cuh"

// The same channels of up to six tensors, by their first elements and the elements from pixel to
// pixel. pwcflow/ops/append.py has the same struct.
constexpr int MOST_PARTS = 6;
struct Parts {
    const void* data[MOST_PARTS];
    long long pitch[MOST_PARTS];
    int count;
};

// sum = the parts at a pixel, in the order they come in.
template <typename T, int WIDTH>
__device__ __forceinline__ void add_up(typename Sum<T>::type (&sum)[WIDTH], const Parts& parts,
                                       long long pixel, int c) {
    using P = Pack<T, WIDTH>;
    P packs[MOST_PARTS];
#pragma unroll
    for (int k = 0; k < MOST_PARTS; ++k) {
        if (k < parts.count) {
            packs[k] = *reinterpret_cast<const P*>(static_cast<const T*>(parts.data[k]) +
                                                   pixel * parts.pitch[k] + c);
        }
    }
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) sum[i] = widen(packs[0].values[i]);
#pragma unroll
    for (int k = 1; k < MOST_PARTS; ++k) {
        if (k < parts.count) {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) sum[i] += widen(packs[k].values[i]);
        }
    }
}

// out (pixels, y_channels + x_channels) = leaky_relu(y + bias), then x. From pixel to pixel of
// y (pixels, y_channels) it is `y_pitch` elements, of x (pixels, x_channels) `x_pitch`.
template <typename T>
__global__ void append_packs(const T* __restrict__ y, const T* __restrict__ bias,
                             const T* __restrict__ x, T* __restrict__ out,
                             typename Sum<T>::type slope, long long y_pitch, long long x_pitch,
                             long long pixels, int y_channels, int x_channels) {
    using S = typename Sum<T>::type;
    constexpr int WIDTH = PACK_WIDTH<T>;
    using P = Pack<T, WIDTH>;
    const Place place((y_channels + x_channels) / WIDTH);
    if (place.idle) return;
    const int c = place.pack * WIDTH;
    const bool computed = c < y_channels;
    const T* from = computed ? y + c : x + (c - y_channels);
    const long long pitch = computed ? y_pitch : x_pitch;
    S added[WIDTH] = {};
    if (computed) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) added[i] = widen(bias[c + i]);
    }
    for (long long pixel = place.first_pixel(); pixel < pixels; pixel += place.pixel_step()) {
        P pack = *reinterpret_cast<const P*>(from + pixel * pitch);
        if (computed) {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                const S sum = widen(pack.values[i]) + added[i];
                pack.values[i] = narrow<T>(sum > S(0) ? sum : sum * slope);
            }
        }
        *reinterpret_cast<P*>(out + pixel * (y_channels + x_channels) + c) = pack;
    }
}

// The gradients of y and bias above: grad_y (pixels, channels) = the sum of the parts where `out` is
// above 0, else that times `slope`; partial (channels, chunks) = the sums of grad_y over the pixels
// of each chunk. From pixel to pixel of `out` it is `out_pitch` elements.
template <typename T>
__global__ void append_backward_packs(Parts parts, const T* __restrict__ out,
                                      T* __restrict__ grad_y,
                                      typename Sum<T>::type* __restrict__ partial,
                                      typename Sum<T>::type slope, long long out_pitch,
                                      long long pixels, int channels) {
    using S = typename Sum<T>::type;
    constexpr int WIDTH = PACK_WIDTH<T>;
    using P = Pack<T, WIDTH>;
    const Place place(channels / WIDTH);
    const int c = place.pack * WIDTH;
    S total[WIDTH] = {};
    if (!place.idle) {
        for (long long pixel = place.first_pixel(); pixel < pixels; pixel += place.pixel_step()) {
            const P sign = *reinterpret_cast<const P*>(out + pixel * out_pitch + c);
            S sum[WIDTH];
            add_up<T, WIDTH>(sum, parts, pixel, c);
            P pack;
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                if (!(widen(sign.values[i]) > S(0))) sum[i] *= slope;
                total[i] += sum[i];
                pack.values[i] = narrow<T>(sum[i]);
            }
            *reinterpret_cast<P*>(grad_y + pixel * channels + c) = pack;
        }
    }
    store_sums<WIDTH>(place, total, partial);
}

// total (pixels, channels) = the sum of the parts.
template <typename T>
__global__ void add_up_packs(Parts parts, T* __restrict__ total, long long pixels, int channels) {
    using S = typename Sum<T>::type;
    constexpr int WIDTH = PACK_WIDTH<T>;
    using P = Pack<T, WIDTH>;
    const Place place(channels / WIDTH);
    if (place.idle) return;
    const int c = place.pack * WIDTH;
    for (long long pixel = place.first_pixel(); pixel < pixels; pixel += place.pixel_step()) {
        S sum[WIDTH];
        add_up<T, WIDTH>(sum, parts, pixel, c);
        P pack;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) pack.values[i] = narrow<T>(sum[i]);
        *reinterpret_cast<P*>(total + pixel * channels + c) = pack;
    }
}
