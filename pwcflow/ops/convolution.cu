// Convolutions of floats with a window of 3 x 3, then a bias and LeakyReLU, on tensor cores, for GPUs
// from compute capability 8.0 on. An implicit GEMM: a product of two matrices, the pixels under the
// window, which are never gathered in memory, and the weights.
//
// TF32 has 11 bits of a float's 24. Each number is therefore split in two, as tensor_cores.cuh says,
// and of the four products of the parts of two numbers all but the smallest are added up. An infinite
// number becomes NaN.
//
// Types: float

#include "tensor.cuh"

#include "tensor_cores.cuh"

constexpr int TAPS = 9;  // of the window
constexpr int STEP = 8;  // terms of a matrix product
constexpr int GAP = 4;   // behind each row in shared memory, so that rows lie in different banks

// 16 bytes from global to shared memory, later; zeros instead if they are not `inside`.
__device__ __forceinline__ void copy_later(float* to, const float* from, bool inside) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;"); }
template <int LEFT>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Which term of the sums a thread copies: the channels in blocks of CHUNK, in each the taps of the
// window, in each of those the channels of the block. So the taps of some channels, which are mostly
// the same pixels, follow each other, and find them in the cache.
template <int CHUNK>
struct Term {
    int channels;
    int block = 0, width, tap = 0, offset;

    __device__ Term(int channels, int first)
        : channels(channels), width(min(CHUNK, channels)), offset(first) {
        settle();
    }
    __device__ void advance() {
        offset += CHUNK;
        settle();
    }
    __device__ void settle() {
        while (offset >= width && present()) {
            offset -= width;
            if (++tap == TAPS) {
                tap = 0;
                block += CHUNK;
                width = min(CHUNK, channels - block);
            }
        }
    }
    __device__ bool present() const { return block < channels; }
    __device__ int channel() const { return block + offset; }
};

// sums += a b, of fragments of matrices of floats as TF32 sees them. In turns over all the sums, so
// that none waits for its own product before.
template <int STRIPS, int FRAGMENTS>
__device__ __forceinline__ void add_products(float (&sums)[STRIPS][FRAGMENTS][4],
                                             const unsigned (&a)[STRIPS][4],
                                             const unsigned (&b)[FRAGMENTS][2]) {
#pragma unroll
    for (int m = 0; m < STRIPS; ++m) {
#pragma unroll
        for (int f = 0; f < FRAGMENTS; ++f) multiply_add<float>(sums[m][f], a[m], b[f][0], b[f][1]);
    }
}

// out (N, out_height, out_width, outputs) = LeakyReLU(sums + bias), of x (N, height, width, channels)
// and weight (outputs, 3, 3, channels). `channels` are a multiple of 4, `outputs` of 8; from pixel to
// pixel it is `x_pitch` and `out_pitch` elements, multiples of 4 and of 2. x and weight begin at
// multiples of 16 bytes, bias and out at multiples of 8.
//
// A block owns HEIGHT x WIDTH pixels and OUTPUTS channels of them, of which PIXEL_WARPS and
// OUTPUT_WARPS warps have equal parts; with SPLIT, so many warps have the same part, and each some of
// its terms. CHUNK terms of each sum are in shared memory at a time, STAGES such chunks on their way
// there or in use. 32 PIXEL_WARPS OUTPUT_WARPS SPLIT threads.
template <int HEIGHT, int WIDTH, int OUTPUTS, int PIXEL_WARPS, int OUTPUT_WARPS, int SPLIT,
          int CHUNK, int STAGES>
__launch_bounds__(32 * PIXEL_WARPS * OUTPUT_WARPS * SPLIT)
__global__ void convolution(const float* __restrict__ x, const float* __restrict__ weight,
                            const float* __restrict__ bias, float* __restrict__ out,
                            long long x_pitch, long long out_pitch, int channels, int outputs,
                            int height, int width, int out_height, int out_width, int stride,
                            int padding, int dilation, float slope) {
    constexpr int PIXELS = HEIGHT * WIDTH, STRIPS = PIXELS / PIXEL_WARPS / 16;
    constexpr int THREADS = 32 * PIXEL_WARPS * OUTPUT_WARPS * SPLIT;
    constexpr int FRAGMENTS = OUTPUTS / OUTPUT_WARPS / 8;
    constexpr int VECTORS = CHUNK / 4;       // of 16 bytes, which a thread copies
    constexpr int ROWS = THREADS / VECTORS;  // copied at a time
    constexpr int PIXEL_COPIES = (PIXELS + ROWS - 1) / ROWS;
    constexpr int WEIGHT_COPIES = (OUTPUTS + ROWS - 1) / ROWS;
    static_assert(PIXELS % (16 * PIXEL_WARPS) == 0 && OUTPUTS % (16 * OUTPUT_WARPS) == 0, "of a warp");
    static_assert(CHUNK / STEP % SPLIT == 0, "equal shares");
    static_assert(THREADS % VECTORS == 0, "whole rows are copied");
    extern __shared__ float4 shared[];
    using Rows = float[CHUNK + GAP];
    Rows* const pixels = reinterpret_cast<Rows*>(shared);  // STAGES x PIXELS
    Rows* const weights = pixels + STAGES * PIXELS;        // STAGES x OUTPUTS

    const int groups = (outputs + OUTPUTS - 1) / OUTPUTS;
    const int tiles_x = (out_width + WIDTH - 1) / WIDTH;
    const int tiles_y = (out_height + HEIGHT - 1) / HEIGHT;
    const int output0 = static_cast<int>(blockIdx.x % groups) * OUTPUTS;
    const int tile = static_cast<int>(blockIdx.x / groups);
    const int x0 = tile % tiles_x * WIDTH, y0 = tile / tiles_x % tiles_y * HEIGHT;
    const long long n = tile / tiles_x / tiles_y;

    const int vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS;
    int top[PIXEL_COPIES], left[PIXEL_COPIES];
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const int pixel = row + i * ROWS, oy = y0 + pixel / WIDTH, ox = x0 + pixel % WIDTH;
        const bool inside = oy < out_height && ox < out_width;
        top[i] = inside ? oy * stride - padding : height;  // below the last row: all zeros
        left[i] = ox * stride - padding;
    }
    x += n * height * width * x_pitch;
    Term<CHUNK> term(channels, vector * 4);
    const auto copy_chunk = [&](int stage) {
        const int down = term.tap / 3 * dilation, right = term.tap % 3 * dilation;
        const bool present = term.present();
#pragma unroll
        for (int i = 0; i < PIXEL_COPIES; ++i) {
            if (PIXELS % ROWS != 0 && row + i * ROWS >= PIXELS) break;
            const int iy = top[i] + down, ix = left[i] + right;
            const bool inside = present && static_cast<unsigned>(iy) < height &&
                                static_cast<unsigned>(ix) < width;
            const long long pixel = static_cast<long long>(iy) * width + ix;
            copy_later(&pixels[stage * PIXELS + row + i * ROWS][4 * vector],
                       inside ? x + pixel * x_pitch + term.channel() : x, inside);
        }
#pragma unroll
        for (int i = 0; i < WEIGHT_COPIES; ++i) {
            const int output = row + i * ROWS;
            if (OUTPUTS % ROWS != 0 && output >= OUTPUTS) break;
            const bool inside = present && output0 + output < outputs;
            const int place = ((output0 + output) * TAPS + term.tap) * channels + term.channel();
            copy_later(&weights[stage * OUTPUTS + output][4 * vector],
                       inside ? weight + place : weight, inside);
        }
        term.advance();
    };

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int part = warp % SPLIT, pixel_warp = warp / SPLIT % PIXEL_WARPS;
    const int output_warp = warp / SPLIT / PIXEL_WARPS;
    // Which row of the matrices a thread points at, and which of their columns.
    const int pixel_row = pixel_warp * STRIPS * 16 + lane % 16, pixel_column = lane / 16 * 4;
    const int output_row = output_warp * FRAGMENTS * 8 + lane % 8 + lane / 16 * 8;
    const int output_column = lane / 8 % 2 * 4;

    const int chunks = (TAPS * channels + CHUNK - 1) / CHUNK;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        copy_chunk(stage);
        end_of_copies();
    }
    float sums[STRIPS][FRAGMENTS][4] = {};
    int stage = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        // To where all threads have read the chunk before this one; all zeros behind the last.
        copy_chunk(stage == 0 ? STAGES - 1 : stage - 1);
        end_of_copies();
        const Rows* const of_pixels = pixels + stage * PIXELS + pixel_row;
        const Rows* const of_weights = weights + stage * OUTPUTS + output_row;
        // Added up apart, since tensor cores cut off what they add up instead of rounding it.
        float partial[STRIPS][FRAGMENTS][4] = {};
#pragma unroll
        for (int i = 0; i < CHUNK / STEP / SPLIT; ++i) {
            const int k = (i * SPLIT + part) * STEP;
            unsigned a[STRIPS][4], a_rest[STRIPS][4], b[FRAGMENTS][2], b_rest[FRAGMENTS][2];
#pragma unroll
            for (int m = 0; m < STRIPS; ++m) {
                unsigned bits[4];
                load_matrices(bits, &of_pixels[16 * m][k + pixel_column]);
#pragma unroll
                for (int j = 0; j < 4; ++j) split_float(bits[j], a[m][j], a_rest[m][j]);
            }
#pragma unroll
            for (int f = 0; f < FRAGMENTS; f += 2) {
                unsigned bits[4];
                load_matrices(bits, &of_weights[8 * f][k + output_column]);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    split_float(bits[j], b[f + j / 2][j % 2], b_rest[f + j / 2][j % 2]);
                }
            }
            // Small products first.
            add_products(partial, a_rest, b);
            add_products(partial, a, b_rest);
            add_products(partial, a, b);
        }
#pragma unroll
        for (int m = 0; m < STRIPS; ++m) {
#pragma unroll
            for (int f = 0; f < FRAGMENTS; ++f) {
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[m][f][j] += partial[m][f][j];
            }
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }

    if constexpr (SPLIT > 1) {
        wait_for_copies<0>();  // the zeros behind the last chunk would overwrite what is exchanged
        __syncthreads();
        // By part, then by the sums of a thread: neighbouring threads in neighbouring banks.
        constexpr int TOGETHER = STRIPS * FRAGMENTS * 4, SHARERS = THREADS / SPLIT;
        float* const exchange = reinterpret_cast<float*>(shared);
        const int sharer = warp / SPLIT * 32 + lane;
        static_assert((SPLIT - 1) * TOGETHER * SHARERS <= STAGES * (PIXELS + OUTPUTS) * (CHUNK + GAP),
                      "the sums of the other parts have room in shared memory");
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            float& sum = sums[i / 4 / FRAGMENTS][i / 4 % FRAGMENTS][i % 4];
            if (part > 0) exchange[((part - 1) * TOGETHER + i) * SHARERS + sharer] = sum;
        }
        __syncthreads();
        if (part > 0) return;
        for (int other = 0; other < SPLIT - 1; ++other) {
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                sums[i / 4 / FRAGMENTS][i / 4 % FRAGMENTS][i % 4] +=
                    exchange[(other * TOGETHER + i) * SHARERS + sharer];
            }
        }
    }

    out += n * out_height * out_width * out_pitch;
#pragma unroll
    for (int m = 0; m < 2 * STRIPS; ++m) {  // in halves of the matrices of sums
        const int pixel = (pixel_warp * STRIPS * 2 + m) * 8 + lane / 4;
        const int oy = y0 + pixel / WIDTH, ox = x0 + pixel % WIDTH;
        if (oy >= out_height || ox >= out_width) continue;
        float* const to = out + (static_cast<long long>(oy) * out_width + ox) * out_pitch;
#pragma unroll
        for (int f = 0; f < FRAGMENTS; ++f) {
            const int output = output0 + (output_warp * FRAGMENTS + f) * 8 + lane % 4 * 2;
            if (output >= outputs) continue;
            const float2 added = *reinterpret_cast<const float2*>(bias + output);
            float2 result = {sums[m / 2][f][m % 2 * 2] + added.x,
                             sums[m / 2][f][m % 2 * 2 + 1] + added.y};
            result.x = result.x > 0.0f ? result.x : result.x * slope;
            result.y = result.y > 0.0f ? result.y : result.y * slope;
            *reinterpret_cast<float2*>(to + output) = result;
        }
    }
}
