// Images on their way into the network and flow on its way out, resized bilinearly as they go.
//
// A thread computes one output pixel, a block THREADS neighbouring ones of one image; grids and
// blocks are one-dimensional. Every size is an argument and every offset is 64-bit; one image has
// fewer than 2^31 pixels. Sums are float (double for a flow in double).

#include "tensor.cuh"

constexpr int THREADS = 256;
constexpr int IMAGE_CHANNELS = 3;
constexpr int NETWORK_CHANNELS = 8;

// What the network sees of a pixel. A half type's is written in one go, 16 bytes.
template <typename T>
struct alignas(16) NetworkPixel {
    T values[NETWORK_CHANNELS];
};

// The output pixel of a thread: (y, x) of `image`, and the how-manieth of all images it is.
struct Place {
    long long image, index;
    int y, x;
    bool idle;

    __device__ Place(int height, int width) {
        const unsigned pixels = static_cast<unsigned>(height) * static_cast<unsigned>(width);
        const unsigned blocks = (pixels + THREADS - 1) / THREADS;
        const unsigned pixel = blockIdx.x % blocks * THREADS + threadIdx.x;
        image = blockIdx.x / blocks;
        index = image * pixels + pixel;
        y = static_cast<int>(pixel / static_cast<unsigned>(width));
        x = static_cast<int>(pixel % static_cast<unsigned>(width));
        idle = pixel >= pixels;
    }
};

// The two input pixels of an axis between which an output pixel lies, and the share of each, as
// F.interpolate with align_corners=False has them. `size` is the input's, `scale` is that over the
// output's. Where both sizes are one, the share of the lower is exactly 1.
template <typename S>
struct Taps {
    int lower, upper;
    S lower_share, upper_share;

    __device__ Taps(int output, int size, S scale) {
        S position = scale * (static_cast<S>(output) + S(0.5)) - S(0.5);
        position = position > S(0) ? position : S(0);
        const int whole = static_cast<int>(position);
        lower = whole < size - 1 ? whole : size - 1;
        upper = lower < size - 1 ? lower + 1 : lower;
        upper_share = position - static_cast<S>(lower);
        lower_share = S(1) - upper_share;
    }
};

template <typename S>
__device__ S between(S lower, S upper, const Taps<S>& taps) {
    return taps.lower_share * lower + taps.upper_share * upper;
}

// pixels (N, source_height, source_width, channels): gray, RGB or RGBA in 0..full_scale
// -> images (N, height, width, 8): blue, green, red in 0..1, what rounding left over of each, two
// zeros.
template <typename Source, typename T>
__device__ void prepare_images(const Source* __restrict__ pixels, T* __restrict__ images,
                               float full_scale, float scale_y, float scale_x, int channels,
                               int source_height, int source_width, int height, int width) {
    const Place place(height, width);
    if (place.idle) return;
    const Taps<float> y(place.y, source_height, scale_y);
    const Taps<float> x(place.x, source_width, scale_x);
    const long long row = static_cast<long long>(source_width) * channels;
    const Source* upper_row = pixels + (place.image * source_height + y.lower) * row;
    const Source* lower_row = pixels + (place.image * source_height + y.upper) * row;
    const long long left = static_cast<long long>(x.lower) * channels;
    const long long right = static_cast<long long>(x.upper) * channels;
    NetworkPixel<T> result;
#pragma unroll
    for (int i = 0; i < IMAGE_CHANNELS; ++i) {
        const int c = channels > 1 ? IMAGE_CHANNELS - 1 - i : 0;
        const float above = between(static_cast<float>(upper_row[left + c]),
                                    static_cast<float>(upper_row[right + c]), x);
        const float below = between(static_cast<float>(lower_row[left + c]),
                                    static_cast<float>(lower_row[right + c]), x);
        const float value = between(above, below, y) / full_scale;
        result.values[i] = static_cast<T>(value);
        const float left_over = value - static_cast<float>(result.values[i]);
        result.values[IMAGE_CHANNELS + i] = static_cast<T>(left_over);
    }
#pragma unroll
    for (int i = 2 * IMAGE_CHANNELS; i < NETWORK_CHANNELS; ++i) {
        result.values[i] = static_cast<T>(0.0f);
    }
    *reinterpret_cast<NetworkPixel<T>*>(images + place.index * NETWORK_CHANNELS) = result;
}

template <typename T>
__global__ void prepare_images_uint8(const unsigned char* __restrict__ pixels,
                                     T* __restrict__ images, float full_scale, float scale_y,
                                     float scale_x, int channels, int source_height,
                                     int source_width, int height, int width) {
    prepare_images(pixels, images, full_scale, scale_y, scale_x, channels, source_height,
                   source_width, height, width);
}

template <typename T>
__global__ void prepare_images_uint16(const unsigned short* __restrict__ pixels,
                                      T* __restrict__ images, float full_scale, float scale_y,
                                      float scale_x, int channels, int source_height,
                                      int source_width, int height, int width) {
    prepare_images(pixels, images, full_scale, scale_y, scale_x, channels, source_height,
                   source_width, height, width);
}

template <typename T>
__global__ void prepare_images_float32(const float* __restrict__ pixels, T* __restrict__ images,
                                       float full_scale, float scale_y, float scale_x, int channels,
                                       int source_height, int source_width, int height, int width) {
    prepare_images(pixels, images, full_scale, scale_y, scale_x, channels, source_height,
                   source_width, height, width);
}

// flow (N, 2, source_height, source_width), the strides of whose axes are given in elements
// -> result (N, height, width, 2) = (u * factor_u, v * factor_v), and false in finite (N) where
// some number of that is not; the others stay.
template <typename T>
__global__ void finish_flow(const T* __restrict__ flow, float2* __restrict__ result,
                            bool* __restrict__ finite, typename Sum<T>::type factor_u,
                            typename Sum<T>::type factor_v, typename Sum<T>::type scale_y,
                            typename Sum<T>::type scale_x, long long image_stride,
                            long long component_stride, long long row_stride,
                            long long pixel_stride, int source_height, int source_width,
                            int height, int width) {
    using S = typename Sum<T>::type;
    const Place place(height, width);
    if (place.idle) return;
    const Taps<S> y(place.y, source_height, scale_y);
    const Taps<S> x(place.x, source_width, scale_x);
    const long long left = x.lower * pixel_stride, right = x.upper * pixel_stride;
    S values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const T* component = flow + place.image * image_stride + i * component_stride;
        const T* upper_row = component + y.lower * row_stride;
        const T* lower_row = component + y.upper * row_stride;
        const S above =
            between(static_cast<S>(upper_row[left]), static_cast<S>(upper_row[right]), x);
        const S below =
            between(static_cast<S>(lower_row[left]), static_cast<S>(lower_row[right]), x);
        values[i] = between(above, below, y);
    }
    const float u = static_cast<float>(values[0] * factor_u);
    const float v = static_cast<float>(values[1] * factor_v);
    result[place.index] = make_float2(u, v);
    if (!isfinite(u) || !isfinite(v)) finite[place.image] = false;
}
