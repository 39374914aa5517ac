// The network's first convolution on tensor cores, for GPUs from compute capability 8.0 on.
//
// Otherwise as split_convolution.cu says of its kernel, which computes the same on other GPUs.
//
// Types: __half __nv_bfloat16

#include "tensor.cuh"

#include "tensor_cores.cuh"

constexpr int IMAGE_CHANNELS = 3, OUTPUTS = 16, SIDE = 3, TAPS = SIDE * SIDE;
constexpr int STRIP = 16, HALF_STRIP = 8;  // neighbouring pixels of a row
constexpr int ROWS = 7;                    // in each of which a warp owns a strip
constexpr int WARPS = 4;                   // of a block, one below the other
constexpr int THREADS = 32 * WARPS;
constexpr int BLOCKS = 5;  // that a multiprocessor shall have registers for
constexpr int STEPS = 3;   // matrix products of 16 terms
// What rounding leaves of a weight is multiplied by this, or it could be too small for float16.
constexpr float ENLARGED = 2048.0f;

// The nine taps of the window: the `part`-th of the first four or of the second four, or the last, of
// whatever part. In the first four and in row 2 those of neighbouring pixels lie together.
struct Tap {
    int row, column;

    __device__ Tap(int four, int part)
        : row(four == 0 ? part / 2 : four == 2 ? 0 : part < SIDE ? 2 : 1),
          column(four == 0 ? part % 2 : four == 2 || part >= SIDE ? 2 : part) {}
};

// As split_convolution, by products of 16 pixels x 16 terms and 16 terms x 8 outputs. The order of
// the terms is free as long as both sides have the same: a thread's share is what it loads at a
// time, a pixel at a tap. Of its three pairs of channels products 1 and 2 take the first two, at
// four taps each, and product 0 the third, at those eight. One of 8 terms takes the last tap.
// A warp owns a strip in each of ROWS rows, a block WARPS times as many rows. The grid counts blocks
// along x, blocks along y, and images.
template <typename T>
__launch_bounds__(THREADS, BLOCKS)
__global__ void split_convolution_strips(const T* __restrict__ images,
                                         const float* __restrict__ weight,
                                         const float* __restrict__ bias, T* __restrict__ out,
                                         Strides of_images, Strides of_out, int height, int width,
                                         float slope) {
    // A matrix's row, and which of the four parts of its columns.
    const int lane = threadIdx.x % 32, group = lane / 4, part = lane % 4;
    const int x = static_cast<int>(blockIdx.x) * STRIP + group;
    const int y0 = (static_cast<int>(blockIdx.y) * WARPS + threadIdx.x / 32) * ROWS;
    const long long n = blockIdx.z;
    images += n * of_images.n + 2 * (y0 * of_images.h + x * of_images.w);
    out += n * of_out.n + y0 * of_out.h + x * of_out.w + 4 * part;

    // A thread's share of the terms: of two pixels of a row, the windows about them. Zeros outside of
    // the image; a window whose centre is inside reaches out above and to the left only, since the
    // image's height and width are even.
    struct Terms {
        unsigned steps[STEPS][4], last[2];
    };
    const bool inside[2] = {x < width, x + HALF_STRIP < width};
    const T* from[3];
#pragma unroll
    for (int four = 0; four < 3; ++four) {
        const Tap tap(four, part);
        from[four] = images + (tap.row - 1) * of_images.h + (tap.column - 1) * of_images.w;
    }
    from[2] += 2 * part;
    const auto load = [&](Terms& terms, bool top) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const long long right = 2 * i * HALF_STRIP * of_images.w;
#pragma unroll
            for (int four = 0; four < 2; ++four) {
                const Tap tap(four, part);
                const bool left = i == 0 && x == 0 && tap.column == 0;
                uint4 pixel = make_uint4(0, 0, 0, 0);
                if (inside[i] && !left && !(top && tap.row == 0)) {
                    pixel = *reinterpret_cast<const uint4*>(from[four] + right);
                }
                terms.steps[1 + four][i] = pixel.x;
                terms.steps[1 + four][2 + i] = pixel.y;
                terms.steps[0][2 * four + i] = pixel.z;
            }
            terms.last[i] = 0;
            if (inside[i] && part < IMAGE_CHANNELS && !top) {
                terms.last[i] = *reinterpret_cast<const unsigned*>(from[2] + right);
            }
        }
#pragma unroll
        for (int four = 0; four < 3; ++four) from[four] += 2 * of_images.h;
    };
    Terms next;
    if (y0 < height) load(next, y0 == 0);

    // Threads' shares of the weights: pairs of what they are rounded to, then of what that leaves.
    __shared__ uint4 shares[STEPS][2][32], last_shares[32];
    for (int i = threadIdx.x; i < TAPS * OUTPUTS; i += THREADS) {
        const int four = i / OUTPUTS / 4, tap_part = i / OUTPUTS % 4, output = i % OUTPUTS;
        const Tap tap(four, tap_part);
        const float* const values =
            weight + output * IMAGE_CHANNELS * TAPS + tap.row * SIDE + tap.column;
        T rounded[IMAGE_CHANNELS], left_over[IMAGE_CHANNELS];
#pragma unroll
        for (int c = 0; c < IMAGE_CHANNELS; ++c) {
            const float value = values[c * TAPS];
            rounded[c] = narrow<T>(value);
            left_over[c] = narrow<T>((value - widen(rounded[c])) * ENLARGED);
        }
        // So that the four sums of a thread, two of each product, are of neighbouring outputs.
        const int half = output / 2 % 2, lane0 = (output / 4 * 2 + output % 2) * 4;
#pragma unroll
        for (int pair = 0; pair < 3; ++pair) {
            uint4* const in_step = shares[pair < 2 ? 1 + four : 0][half];
            uint4* const share = four == 2 ? &last_shares[lane0 + pair] : &in_step[lane0 + tap_part];
            Pack<T, 2>* const to = reinterpret_cast<Pack<T, 2>*>(share) +
                                   (four == 2 ? half : pair < 2 ? pair : four);
            const int low = 2 * pair % IMAGE_CHANNELS, high = (2 * pair + 1) % IMAGE_CHANNELS;
            to[0] = {rounded[low], rounded[high]};
            to[2] = {left_over[low], left_over[high]};
        }
    }
    __syncthreads();
    uint4 weights[STEPS][2], last = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < 2 * STEPS; ++i) weights[i / 2][i % 2] = shares[i / 2][i % 2][lane];
    if (part < IMAGE_CHANNELS) last = last_shares[lane];
    const unsigned last_weights[2][2] = {{last.x, last.z}, {last.y, last.w}};
    float biases[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) biases[i] = bias[4 * part + i];

    const int rows = min(ROWS, height - y0);
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        const Terms terms = next;
        if (row + 1 < rows) load(next, false);
        float sums[2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // Summed apart: what tensor cores add to a sum is cut off, not rounded.
            float products[2][4] = {}, rests[4] = {};
            multiply_add<T>(products[1], terms.last, last_weights[half][0]);
            multiply_add<T>(rests, terms.last, last_weights[half][1]);
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const uint4& pairs = weights[step][half];
                multiply_add<T>(products[step / 2], terms.steps[step], pairs.x, pairs.y);
                multiply_add<T>(rests, terms.steps[step], pairs.z, pairs.w);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float rest = rests[i] * (1.0f / ENLARGED) + biases[2 * half + i % 2];
                sums[half][i] = products[0][i] + products[1][i] + rest;
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (!inside[i]) continue;
            Pack<T, 4> rounded, left_over;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float sum = sums[k / 2][2 * i + k % 2], value = fmaxf(sum, sum * slope);
                rounded.values[k] = narrow<T>(value);
                left_over.values[k] = narrow<T>(value - widen(rounded.values[k]));
            }
            T* const to = out + i * HALF_STRIP * of_out.w;
            *reinterpret_cast<Pack<T, 4>*>(to) = rounded;
            *reinterpret_cast<Pack<T, 4>*>(to + OUTPUTS) = left_over;
        }
        out += of_out.h;
    }
}
