// The network's first convolution, its result in two parts of half precision.
//
// Types: __half __nv_bfloat16

#include "tensor.cuh"

constexpr int IMAGE_CHANNELS = 3, NETWORK_CHANNELS = 8, OUTPUTS = 16, SIDE = 3;
constexpr int AT_ONCE = 2;                         // neighbouring pixels that a thread owns
constexpr int COLUMNS = 2 * (AT_ONCE - 1) + SIDE;  // of the image that they see, at stride 2
constexpr int PARTS = 2 * OUTPUTS;
constexpr int THREADS = 128;
// That a multiprocessor shall have registers for: an H200 then holds all 896 of a pair of
// 1024 x 448 at once.
constexpr int BLOCKS = 7;

// images (N, 8, h, w), channels-last, the first three channels plus the next three
// -> out (N, 32, h / 2, w / 2), channels-last: leaky_relu of a convolution with
// weight (16, 3, 3, 3), stride 2 and padding 1, plus bias (16). Channels 0 to 15 have it rounded,
// 16 to 31 what that leaves over. `height` and `width` are those of `out`; the slope is at most 1.
// One thread for two neighbouring pixels; no block has those of two images.
template <typename T>
__launch_bounds__(THREADS, BLOCKS)
__global__ void split_convolution(const T* __restrict__ images, const float* __restrict__ weight,
                                  const float* __restrict__ bias, T* __restrict__ out,
                                  Strides of_images, Strides of_out, int height, int width,
                                  float slope) {
    // By row, column, input and output: four outputs are loaded at a time.
    constexpr int TAPS = SIDE * SIDE;
    __shared__ float4 weights[TAPS * IMAGE_CHANNELS * OUTPUTS / 4];
    for (int i = threadIdx.x; i < TAPS * IMAGE_CHANNELS * OUTPUTS; i += THREADS) {
        const int k = i % OUTPUTS, c = i / OUTPUTS % IMAGE_CHANNELS;
        const int tap = i / OUTPUTS / IMAGE_CHANNELS;
        reinterpret_cast<float*>(weights)[i] = weight[(k * IMAGE_CHANNELS + c) * TAPS + tap];
    }
    __syncthreads();
    const unsigned across = (width + AT_ONCE - 1) / AT_ONCE;
    const unsigned pairs = height * across;
    const unsigned blocks = (pairs + THREADS - 1) / THREADS;
    const unsigned pair = blockIdx.x % blocks * THREADS + threadIdx.x;
    if (pair >= pairs) return;
    const int y = static_cast<int>(pair / across), x0 = static_cast<int>(pair % across) * AT_ONCE;
    images += blockIdx.x / blocks * of_images.n;
    out += blockIdx.x / blocks * of_out.n;
    float sums[AT_ONCE][OUTPUTS];
#pragma unroll
    for (int k = 0; k < OUTPUTS; ++k) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) sums[i][k] = bias[k];
    }
#pragma unroll
    for (int row = 0; row < SIDE; ++row) {
        const int from_y = 2 * y + row - 1;
        float seen[COLUMNS][IMAGE_CHANNELS] = {};
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            const int from_x = 2 * x0 + column - 1;
            if (from_y < 0 || from_y >= 2 * height || from_x < 0 || from_x >= 2 * width) continue;
            using Pixel = Pack<T, NETWORK_CHANNELS>;
            const Pixel pixel = *reinterpret_cast<const Pixel*>(images + from_y * of_images.h +
                                                                from_x * of_images.w);
#pragma unroll
            for (int c = 0; c < IMAGE_CHANNELS; ++c) {
                seen[column][c] = widen(pixel.values[c]) + widen(pixel.values[IMAGE_CHANNELS + c]);
            }
        }
#pragma unroll
        for (int column = 0; column < SIDE; ++column) {
#pragma unroll
            for (int c = 0; c < IMAGE_CHANNELS; ++c) {
#pragma unroll
                for (int k = 0; k < OUTPUTS; k += 4) {
                    const int tap = row * SIDE + column;
                    const float4 w = weights[((tap * IMAGE_CHANNELS + c) * OUTPUTS + k) / 4];
#pragma unroll
                    for (int i = 0; i < AT_ONCE; ++i) {
                        const float value = seen[2 * i + column][c];
                        sums[i][k] += w.x * value;
                        sums[i][k + 1] += w.y * value;
                        sums[i][k + 2] += w.z * value;
                        sums[i][k + 3] += w.w * value;
                    }
                }
            }
        }
    }
    constexpr int WIDTH = PACK_WIDTH<T>;
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
        if (x0 + i >= width) continue;
        Pack<T, WIDTH> packs[PARTS / WIDTH];
#pragma unroll
        for (int k = 0; k < OUTPUTS; ++k) {
            const float value = fmaxf(sums[i][k], sums[i][k] * slope);
            const T rounded = narrow<T>(value);
            packs[k / WIDTH].values[k % WIDTH] = rounded;
            packs[(OUTPUTS + k) / WIDTH].values[k % WIDTH] = narrow<T>(value - widen(rounded));
        }
        Pack<T, WIDTH>* const to = reinterpret_cast<Pack<T, WIDTH>*>(
            out + y * of_out.h + (x0 + i) * of_out.w);
#pragma unroll
        for (int pack = 0; pack < PARTS / WIDTH; ++pack) to[pack] = packs[pack];
    }
}
