// The gradients of the cost volume of PWC-Net, of halves on tensor cores, for GPUs from compute
// capability 8.0 on. Otherwise as cost_volume.cu says of its kernels, which compute the rest.

#include "tensor.cuh"

#include "tensor_cores.cuh"

#include "cost_volume.cuh"

// As cost_volume_gradient in cost_volume.cu. A block owns TILE pixels of each of ROWS rows, and GROUP
// channels of all it is given. The gradient at the displacements of one vertical offset is a banded
// matrix, TILE x SPAN, that multiplies the SPAN pixels of the other feature. Eight warps: each owns
// one row and 16 of the channels. 256 threads.
template <typename T, int SIGN, int ROWS, int GROUP>
__device__ void gradient_on_tensor_cores(const T* __restrict__ grad, const T* __restrict__ other,
                                         T* __restrict__ result, Strides of_grad, Strides of_other,
                                         Strides of_result, long long block, int channels,
                                         int height, int width, int packs_in, int pairs_out) {
    constexpr int PITCH = GROUP + 8, BAND = SPAN + 8;
    constexpr int OTHER_ROWS = ROWS + 2 * MAX_DISPLACEMENT, ELEMENTS = ROWS * DISPLACEMENTS * TILE;
    constexpr int THREADS = 256, AT_ONCE = 6;
    static_assert(ROWS * GROUP / 16 * 32 == THREADS, "each warp has a row and 16 channels");
    extern __shared__ uint4 memory[];
    T* const bands = reinterpret_cast<T*>(memory);  // [row][offset][pixel][neighbour]
    T* const tile = bands + ROWS * SIDE * TILE * BAND;
    const int groups = (channels + GROUP - 1) / GROUP;
    const int c0 = static_cast<int>(block % groups) * GROUP;
    const Place place(block / groups, height, width, ROWS);
    const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 % ROWS;
    const int part = thread / 32 / ROWS;
    grad += place.n * of_grad.n;
    other += place.n * of_other.n;
    result += place.n * of_result.n;

    load_tile<OTHER_ROWS, SPAN>(tile, other, of_other, place.y0 - MAX_DISPLACEMENT,
                                place.x0 - MAX_DISPLACEMENT, c0, GROUP, PITCH, SPAN * PITCH,
                                channels, height, width, packs_in != 0);
    for (int i = thread; i < ROWS * SIDE * TILE * BAND * 2 / 16; i += THREADS) {
        reinterpret_cast<uint4*>(bands)[i] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    for (int start = thread; start < ELEMENTS; start += AT_ONCE * THREADS) {
        T values[AT_ONCE];  // several loads on their way at a time
        int places[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            const int i = start + k * THREADS;
            const bool by_channel = of_grad.c == 1;
            const int d = by_channel ? i % DISPLACEMENTS : i / TILE % DISPLACEMENTS;
            const int m = by_channel ? i / DISPLACEMENTS % TILE : i % TILE;
            const int r = i / (DISPLACEMENTS * TILE);
            // Where the other feature's pixel lies from the result's; for the second feature's
            // gradient the displacement leads from there to here, and the gradient is taken there.
            const int step_y = (d / SIDE - MAX_DISPLACEMENT) * SIGN;
            const int step_x = (d % SIDE - MAX_DISPLACEMENT) * SIGN;
            const int y = place.y0 + r + (SIGN > 0 ? 0 : step_y);
            const int x = place.x0 + m + (SIGN > 0 ? 0 : step_x);
            const bool inside = i < ELEMENTS && y >= 0 && y < height && x >= 0 && x < width;
            const int offset = step_y + MAX_DISPLACEMENT, s = m + step_x + MAX_DISPLACEMENT;
            places[k] = inside ? ((r * SIDE + offset) * TILE + m) * BAND + s : -1;
            if (inside) values[k] = grad[d * of_grad.c + y * of_grad.h + x * of_grad.w];
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (places[k] >= 0) bands[places[k]] = values[k];
        }
    }
    wait_for_copies();
    __syncthreads();
    float sum[2][4] = {};
#pragma unroll
    for (int offset = 0; offset < SIDE; ++offset) {
        unsigned a[4], a_last[2];
        const T* band = bands + (row * SIDE + offset) * TILE * BAND;
        load_matrices(a, band + lane % 16 * BAND + lane / 16 * 8);
        load_matrices(a_last, band + lane % 16 * BAND + 16);
        const T* pixels = tile + (row + offset) * SPAN * PITCH + part * 16;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            unsigned b[2], b_last;
            load_transposed(b, pixels + lane % 16 * PITCH + j * 8);
            load_transposed(b_last, pixels + (16 + lane % 8) * PITCH + j * 8);
            multiply_add<T>(sum[j], a, b[0], b[1]);
            multiply_add<T>(sum[j], a_last, b_last);
        }
    }
    const int y = place.y0 + row;
    if (y >= height) return;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const int x = place.x0 + lane / 4 + i / 2 * 8;
            const int c = c0 + part * 16 + j * 8 + lane % 4 * 2;
            if (x >= width || c >= channels) continue;
            const T pair[2] = {narrow<T>(sum[j][i] / channels),
                               narrow<T>(sum[j][i + 1] / channels)};
            T* to = result + y * of_result.h + x * of_result.w + c * of_result.c;
            if (pairs_out) {
                unsigned both;
                memcpy(&both, pair, sizeof(both));
                *reinterpret_cast<unsigned*>(to) = both;
            } else {
                to[0] = pair[0];
                if (c + 1 < channels) to[of_result.c] = pair[1];
            }
        }
    }
}

// Both gradients: every other block is at the first feature's, and every other at the second's.
template <typename T, int ROWS, int GROUP>
__launch_bounds__(256)
__global__ void cost_volume_gradients_halves(
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
