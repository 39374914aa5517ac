// The gradients of the cost volume of PWC-Net, of halves and floats on tensor cores, for GPUs from
// compute capability 8.0 on. Otherwise as cost_volume.cu says of its kernels, which compute the rest.

#include "tensor.cuh"

#include "tensor_cores.cuh"

#include "cost_volume.cuh"

constexpr int CHANNELS_OF_WARP = 16;
constexpr int MATRICES_OF_SUM = CHANNELS_OF_WARP / 8;
// Elements of shared memory from one band to the next: those of halves that are loaded together lie
// in different banks; for floats that would need more shared memory than there is.
template <typename T>
constexpr int BAND = sizeof(T) == 2 ? SPAN + 16 : SPAN;
template <typename T>
constexpr int ROW_OF_BANDS = SIDE * TILE * BAND<T>;

// The gradient at pixels p and displacements d -> bands [row][offset][pixel][neighbour]: where the
// other feature's pixel lies from the result's. For the second feature's gradient (SIGN < 0) the
// displacement leads from there to here, and the gradient is taken there. What is outside of the
// image, or of the bands, is left as it is.
// For gradients that are channels-last: a thread keeps to one displacement.
template <int SIGN, int ROWS, int THREADS, typename T>
__device__ void fill_bands_by_displacement(T* bands, const T* __restrict__ grad, Strides of,
                                           int y0, int x0, int height, int width) {
    static_assert(THREADS >= DISPLACEMENTS, "each displacement has a thread");
    constexpr int STEP = THREADS / DISPLACEMENTS, PER_ROW = (TILE + STEP - 1) / STEP;
    const int d = threadIdx.x % DISPLACEMENTS, m0 = threadIdx.x / DISPLACEMENTS;
    if (m0 >= STEP) return;
    const int step_y = (d / SIDE - MAX_DISPLACEMENT) * SIGN;
    const int step_x = (d % SIDE - MAX_DISPLACEMENT) * SIGN;
    const int y = y0 + (SIGN > 0 ? 0 : step_y), x = x0 + m0 + (SIGN > 0 ? 0 : step_x);
    const T* from = grad + d * of.c + y * of.h + x * of.w;
    T* to = bands + ((step_y + MAX_DISPLACEMENT) * TILE + m0) * BAND<T> + m0 + step_x +
            MAX_DISPLACEMENT;
    bool inside[PER_ROW];
#pragma unroll
    for (int k = 0; k < PER_ROW; ++k) {
        inside[k] = m0 + k * STEP < TILE &&
                    static_cast<unsigned>(x + k * STEP) < static_cast<unsigned>(width);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r, from += of.h, to += ROW_OF_BANDS<T>) {
        if (static_cast<unsigned>(y + r) >= static_cast<unsigned>(height)) continue;
        T values[PER_ROW];  // several loads on their way at a time
        const T* pixel = from;
#pragma unroll
        for (int k = 0; k < PER_ROW; ++k, pixel += STEP * of.w) {
            if (inside[k]) values[k] = *pixel;
        }
#pragma unroll
        for (int k = 0; k < PER_ROW; ++k) {
            if (inside[k]) to[k * STEP * (BAND<T> + 1)] = values[k];
        }
    }
}

// For all others: a thread keeps to one pixel.
template <int SIGN, int ROWS, int THREADS, typename T>
__device__ void fill_bands_by_pixel(T* bands, const T* __restrict__ grad, Strides of, int y0,
                                    int x0, int height, int width) {
    constexpr int PIXELS = ROWS * TILE;
    static_assert(THREADS % PIXELS == 0, "each pixel has as many threads");
    const int r = threadIdx.x % PIXELS / TILE, m = threadIdx.x % TILE;
    for (int dx = threadIdx.x / PIXELS; dx < SIDE; dx += THREADS / PIXELS) {
        const int step_x = (dx - MAX_DISPLACEMENT) * SIGN;
        const int x = x0 + m + (SIGN > 0 ? 0 : step_x);
        if (static_cast<unsigned>(x) >= static_cast<unsigned>(width)) continue;
        const T* from = grad + dx * of.c + (y0 + r) * of.h + x * of.w;
        T* to = bands + r * ROW_OF_BANDS<T> + m * BAND<T> + m + step_x + MAX_DISPLACEMENT;
        T values[SIDE];
        bool inside[SIDE];
#pragma unroll
        for (int dy = 0; dy < SIDE; ++dy) {
            const int step_y = SIGN > 0 ? 0 : MAX_DISPLACEMENT - dy;
            inside[dy] =
                static_cast<unsigned>(y0 + r + step_y) < static_cast<unsigned>(height);
            if (inside[dy]) values[dy] = from[dy * SIDE * of.c + step_y * of.h];
        }
#pragma unroll
        for (int dy = 0; dy < SIDE; ++dy) {
            const int offset = SIGN > 0 ? dy : SIDE - 1 - dy;
            if (inside[dy]) to[offset * TILE * BAND<T>] = values[dy];
        }
    }
}

// As load_tile in cost_volume.cuh, where neighbouring pixels lie together: a thread keeps to one
// column. Warps take turns at the channels.
template <int ROWS, int GROUP, int PITCH, int THREADS, typename T>
__device__ void load_columns(T* tile, const T* __restrict__ image, Strides of, int y0, int x0,
                             int c0, int channels, int height, int width) {
    static_assert(SPAN <= 32, "a warp holds a row");
    const int lane = threadIdx.x % 32, x = x0 + lane;
    if (lane >= SPAN) return;
    const bool column = static_cast<unsigned>(x) < static_cast<unsigned>(width);
    for (int c = threadIdx.x / 32; c < GROUP; c += THREADS / 32) {
        const T* from = image + (c0 + c) * of.c + y0 * of.h + x * of.w;
        T* const to = tile + lane * PITCH + c;
        T values[ROWS];
#pragma unroll
        for (int row = 0; row < ROWS; ++row, from += of.h) {
            const bool inside = column && c0 + c < channels &&
                                static_cast<unsigned>(y0 + row) < static_cast<unsigned>(height);
            values[row] = inside ? *from : narrow<T>(0.0f);
        }
#pragma unroll
        for (int row = 0; row < ROWS; ++row) to[row * SPAN * PITCH] = values[row];
    }
}

// sums (TILE x 16) += band (TILE x SPAN) times the channels of SPAN pixels, PITCH elements apart.
template <int PITCH, typename T>
__device__ __forceinline__ void multiply_band(float (&sums)[MATRICES_OF_SUM][4], const T* band,
                                              const T* pixels, int lane) {
    unsigned a[4], a_last[2];
    load_matrices(a, band + lane % 16 * BAND<T> + lane / 16 * 8);
    load_matrices(a_last, band + lane % 16 * BAND<T> + 16);
#pragma unroll
    for (int j = 0; j < MATRICES_OF_SUM; ++j) {
        unsigned b[2], b_last;
        load_transposed(b, pixels + lane % 16 * PITCH + j * 8);
        load_transposed(b_last, pixels + (16 + lane % 8) * PITCH + j * 8);
        multiply_add<T>(sums[j], a, b[0], b[1]);
        multiply_add<T>(sums[j], a_last, b_last);
    }
}
template <int PITCH>
__device__ __forceinline__ void multiply_band(float (&sums)[MATRICES_OF_SUM][4], const float* band,
                                              const float* pixels, int lane) {
    // Apart, since tensor cores cut the sums they add to off instead of rounding them.
    float parts[MATRICES_OF_SUM][4] = {};
#pragma unroll
    for (int s = 0; s < SPAN; s += 8) {
        unsigned bits[4], a[4], a_rest[4];
        load_matrices(bits, band + lane % 16 * BAND<float> + lane / 16 * 4 + s);
#pragma unroll
        for (int i = 0; i < 4; ++i) split_float(bits[i], a[i], a_rest[i]);
        const float* const from = pixels + (s + lane % 4) * PITCH + lane / 4;
#pragma unroll
        for (int j = 0; j < MATRICES_OF_SUM; ++j) {
            unsigned b[2], b_rest[2];
            split_float(__float_as_uint(from[j * 8]), b[0], b_rest[0]);
            split_float(__float_as_uint(from[j * 8 + 4 * PITCH]), b[1], b_rest[1]);
            multiply_add<float>(parts[j], a_rest, b[0], b[1]);
            multiply_add<float>(parts[j], a, b_rest[0], b_rest[1]);
            multiply_add<float>(parts[j], a, b[0], b[1]);
        }
    }
#pragma unroll
    for (int j = 0; j < MATRICES_OF_SUM; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[j][i] += parts[j][i];
    }
}

// As cost_volume_gradient in cost_volume.cu. A block owns TILE pixels of each of ROWS rows, and GROUP
// channels of all it is given. The gradient at the displacements of one vertical offset is a banded
// matrix, TILE x SPAN, that multiplies the SPAN pixels of the other feature. Each warp owns one row
// and 16 of the channels.
template <typename T, int SIGN, int ROWS, int GROUP>
__device__ void gradient_on_tensor_cores(const T* __restrict__ grad, const T* __restrict__ other,
                                         T* __restrict__ result, Strides of_grad, Strides of_other,
                                         Strides of_result, long long block, int channels,
                                         int height, int width, int packs_in, int pairs_out) {
    constexpr int PITCH = GROUP + PACK_WIDTH<T>, OTHER_ROWS = ROWS + 2 * MAX_DISPLACEMENT;
    constexpr int THREADS = ROWS * GROUP / CHANNELS_OF_WARP * 32;
    extern __shared__ uint4 memory[];
    T* const bands = reinterpret_cast<T*>(memory);
    T* const tile = bands + ROWS * ROW_OF_BANDS<T>;
    const int groups = (channels + GROUP - 1) / GROUP;
    const int c0 = static_cast<int>(block % groups) * GROUP;
    const Place place(block / groups, height, width, ROWS);
    const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 % ROWS;
    const int part = thread / 32 / ROWS;
    grad += place.n * of_grad.n;
    other += place.n * of_other.n;
    result += place.n * of_result.n;

    const int other_y0 = place.y0 - MAX_DISPLACEMENT, other_x0 = place.x0 - MAX_DISPLACEMENT;
    if (of_other.w == 1 && of_other.c != 1) {
        load_columns<OTHER_ROWS, GROUP, PITCH, THREADS>(tile, other, of_other, other_y0, other_x0,
                                                        c0, channels, height, width);
    } else {
        load_tile<OTHER_ROWS, SPAN>(tile, other, of_other, other_y0, other_x0, c0, GROUP, PITCH,
                                    SPAN * PITCH, channels, height, width, packs_in != 0);
    }
    for (int i = thread; i < ROWS * ROW_OF_BANDS<T> / PACK_WIDTH<T>; i += THREADS) {
        reinterpret_cast<uint4*>(bands)[i] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    if (of_grad.c == 1) {
        fill_bands_by_displacement<SIGN, ROWS, THREADS>(bands, grad, of_grad, place.y0, place.x0,
                                                        height, width);
    } else {
        fill_bands_by_pixel<SIGN, ROWS, THREADS>(bands, grad, of_grad, place.y0, place.x0, height,
                                                 width);
    }
    wait_for_copies();
    __syncthreads();
    float sums[MATRICES_OF_SUM][4] = {};
#pragma unroll
    for (int offset = 0; offset < SIDE; ++offset) {
        multiply_band<PITCH>(sums, bands + row * ROW_OF_BANDS<T> + offset * TILE * BAND<T>,
                             tile + (row + offset) * SPAN * PITCH + part * CHANNELS_OF_WARP, lane);
    }
    const int y = place.y0 + row;
    if (y >= height) return;
#pragma unroll
    for (int j = 0; j < MATRICES_OF_SUM; ++j) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const int x = place.x0 + lane / 4 + i / 2 * 8;
            const int c = c0 + part * CHANNELS_OF_WARP + j * 8 + lane % 4 * 2;
            if (x >= width || c >= channels) continue;
            const Pack<T, 2> pair = {narrow<T>(sums[j][i] / channels),
                                     narrow<T>(sums[j][i + 1] / channels)};
            T* to = result + y * of_result.h + x * of_result.w + c * of_result.c;
            if (pairs_out) {
                *reinterpret_cast<Pack<T, 2>*>(to) = pair;
            } else {
                to[0] = pair.values[0];
                if (c + 1 < channels) to[of_result.c] = pair.values[1];
            }
        }
    }
}

// Both gradients: every other block is at the first feature's, and every other at the second's.
// 2 ROWS GROUP threads.
template <typename T, int ROWS, int GROUP>
__launch_bounds__(ROWS * GROUP / CHANNELS_OF_WARP * 32)
__global__ void cost_volume_gradients_bands(
    const T* __restrict__ grad, const T* __restrict__ first, const T* __restrict__ second,
    T* __restrict__ grad_first, T* __restrict__ grad_second, Strides of_grad, Strides of_first,
    Strides of_second, Strides of_grad_first, Strides of_grad_second, int channels, int height,
    int width, int packs_in, int pairs_out) {
    const long long block = blockIdx.x / 2;
    if (blockIdx.x % 2 == 0) {
        gradient_on_tensor_cores<T, 1, ROWS, GROUP>(grad, second, grad_first, of_grad, of_second,
                                                    of_grad_first, block, channels, height, width,
                                                    packs_in, pairs_out);
    } else {
        gradient_on_tensor_cores<T, -1, ROWS, GROUP>(grad, first, grad_second, of_grad, of_first,
                                                     of_grad_second, block, channels, height, width,
                                                     packs_in, pairs_out);
    }
}
