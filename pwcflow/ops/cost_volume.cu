// The cost volume of PWC-Net and its gradients, by kernels that compute anything anywhere; those of
// cost_volume_strips.cu and cost_volume_gradients.cu are faster where they run.
//
// Needs CUDA 11.2 or newer: C++17, __half and __nv_bfloat16. Every size is an argument, every offset
// into a tensor is 64-bit, and every kernel runs on a one-dimensional grid, whose limit is 2^31 - 1
// blocks. Sums are float (double for double) in a fixed order, so results repeat bit for bit.

#include "tensor.cuh"

#include "cost_volume.cuh"

// (N, C, H, W) of any strides -> (N, H + 2 pad, W + 2 pad, C) with zeros around.
// A block owns 32 pixels of one padded row times 32 channels, and turns them in shared memory so
// that it both reads along x and writes along c. 32 x 8 threads.
template <typename T>
__global__ void rearrange(const T* __restrict__ source, T* __restrict__ target,
                          Strides of, int channels, int height, int width, int pad) {
    __shared__ T tile[32][33];
    const int padded_width = width + 2 * pad, padded_height = height + 2 * pad;
    const int tiles_c = (channels + 31) / 32, tiles_x = (padded_width + 31) / 32;
    long long block = blockIdx.x;
    const int c0 = static_cast<int>(block % tiles_c) * 32;
    block /= tiles_c;
    const int x0 = static_cast<int>(block % tiles_x) * 32;
    block /= tiles_x;
    const int padded_y = static_cast<int>(block % padded_height);
    const long long n = block / padded_height;

    const int y = padded_y - pad, x = x0 + static_cast<int>(threadIdx.x) - pad;
    const bool inside = y >= 0 && y < height && x >= 0 && x < width;
    for (int i = threadIdx.y; i < 32 && c0 + i < channels; i += 8) {
        tile[i][threadIdx.x] =
            inside ? source[n * of.n + (c0 + i) * of.c + y * of.h + x * of.w]
                   : narrow<T>(0);
    }
    __syncthreads();
    const int c = c0 + threadIdx.x;
    for (int i = threadIdx.y; i < 32 && x0 + i < padded_width; i += 8) {
        if (c < channels) {
            target[((n * padded_height + padded_y) * padded_width + x0 + i) * channels + c] =
                tile[threadIdx.x][i];
        }
    }
}

// volume (N, 81, H, W) = mean over C of first times displaced second, then LeakyReLU of `slope`.
// `filled` is the number of channels it has, a gap of zeros behind the 81 included; with `copied`,
// the channels of `first` follow behind that.
// A block owns TILE pixels of each of ROWS rows. Of its threads, each computes four neighbouring
// pixels at the nine horizontal displacements of one vertical one, over every SPLIT-th pack of
// channels; the sums of a pixel's SPLIT threads are added up at the end. Channels pass through shared
// memory in chunks. 36 ROWS SPLIT threads.
template <typename T, int ROWS, int SPLIT>
__device__ void cost_volume_forward(const T* __restrict__ first, const T* __restrict__ second,
                                    T* __restrict__ volume, Strides of_first, Strides of_second,
                                    Strides of_volume, int channels, int height, int width,
                                    typename Sum<T>::type slope, int packs, int filled,
                                    int copied) {
    using S = typename Sum<T>::type;
    constexpr int PIXELS = 4, GROUPS = TILE / PIXELS, WINDOW = PIXELS + 2 * MAX_DISPLACEMENT;
    constexpr int WORKERS = GROUPS * ROWS * SIDE, CHUNK = (SPLIT > 1 ? 256 : 128) / sizeof(S);
    // A gap of one pack behind each pixel and each row: threads that read at a time, of four rows
    // and two groups, then hit different banks.
    constexpr int PACK = 16 / sizeof(S), PITCH = CHUNK + PACK;
    constexpr int FIRST_ROW = TILE * PITCH + PACK, SECOND_ROW = SPAN * PITCH + PACK;
    constexpr int OUT = DISPLACEMENTS + 8;  // odd, for the banks' sake
    struct alignas(16) Pack {
        S values[PACK];
    };
    extern __shared__ uint4 memory[];
    S* const first_tile = reinterpret_cast<S*>(memory);
    S* const second_tile = first_tile + ROWS * FIRST_ROW;
    const Place place(blockIdx.x, height, width, ROWS);
    const int thread = threadIdx.x, worker = thread % WORKERS, split = thread / WORKERS;
    const int row = worker % ROWS, group = worker / ROWS % GROUPS, dy = worker / ROWS / GROUPS;
    first += place.n * of_first.n;
    second += place.n * of_second.n;
    volume += place.n * of_volume.n;

    S sum[PIXELS][SIDE] = {};
    for (int c0 = 0; c0 < channels; c0 += CHUNK) {
        load_tile<ROWS, TILE>(first_tile, first, of_first, place.y0, place.x0, c0, CHUNK, PITCH,
                              FIRST_ROW, channels, height, width, packs != 0);
        load_tile<ROWS + 2 * MAX_DISPLACEMENT, SPAN>(
            second_tile, second, of_second, place.y0 - MAX_DISPLACEMENT,
            place.x0 - MAX_DISPLACEMENT, c0, CHUNK, PITCH, SECOND_ROW, channels, height, width,
            packs != 0);
        wait_for_copies();
        __syncthreads();
        if (copied) {
            const int present = min(CHUNK, channels - c0);
            for (int i = thread; i < ROWS * TILE * CHUNK; i += blockDim.x) {
                const int p = i / CHUNK, c = i % CHUNK;
                const int y = place.y0 + p / TILE, x = place.x0 + p % TILE;
                if (c < present && y < height && x < width) {
                    volume[(filled + c0 + c) * of_volume.c + y * of_volume.h + x * of_volume.w] =
                        narrow<T>(first_tile[p / TILE * FIRST_ROW + p % TILE * PITCH + c]);
                }
            }
        }
#pragma unroll 2
        for (int c = split * PACK; c < CHUNK; c += SPLIT * PACK) {
            const S* from = first_tile + row * FIRST_ROW + group * PIXELS * PITCH + c;
            const S* window = second_tile + (row + dy) * SECOND_ROW + group * PIXELS * PITCH + c;
            Pack values[PIXELS];
#pragma unroll
            for (int i = 0; i < PIXELS; ++i) {
                values[i] = *reinterpret_cast<const Pack*>(from + i * PITCH);
            }
#pragma unroll
            for (int j = 0; j < WINDOW; ++j) {
                const Pack other = *reinterpret_cast<const Pack*>(window + j * PITCH);
#pragma unroll
                for (int i = 0; i < PIXELS; ++i) {
                    if (j - i < 0 || j - i >= SIDE) continue;
#pragma unroll
                    for (int k = 0; k < PACK; ++k) {
                        sum[i][j - i] += values[i].values[k] * other.values[k];
                    }
                }
            }
        }
        __syncthreads();
    }
    // The upper half of the splits is added to the lower until one is left.
#pragma unroll
    for (int half = SPLIT / 2; half > 0; half /= 2) {
        S* const sums = first_tile + worker;
        if (split >= half && split < 2 * half) {
#pragma unroll
            for (int i = 0; i < PIXELS * SIDE; ++i) {
                sums[((split - half) * PIXELS * SIDE + i) * WORKERS] = sum[i / SIDE][i % SIDE];
            }
        }
        __syncthreads();
        if (split < half) {
#pragma unroll
            for (int i = 0; i < PIXELS * SIDE; ++i) {
                sum[i / SIDE][i % SIDE] += sums[(split * PIXELS * SIDE + i) * WORKERS];
            }
        }
        __syncthreads();
    }
    // Through shared memory, so that neighbouring threads write neighbouring elements.
    S* const out = first_tile;
    if (split == 0) {
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
#pragma unroll
            for (int dx = 0; dx < SIDE; ++dx) {
                const S mean = sum[i][dx] / channels;
                out[(row * TILE + group * PIXELS + i) * OUT + dy * SIDE + dx] =
                    mean > S(0) ? mean : mean * slope;
            }
        }
    }
    __syncthreads();
    const bool by_channel = of_volume.c == 1;
    for (int i = thread; i < ROWS * TILE * filled; i += blockDim.x) {
        const int p = by_channel ? i / filled : i % (ROWS * TILE);
        const int c = by_channel ? i % filled : i / (ROWS * TILE);
        const int y = place.y0 + p / TILE, x = place.x0 + p % TILE;
        if (y < height && x < width) {
            volume[c * of_volume.c + y * of_volume.h + x * of_volume.w] =
                narrow<T>(c < DISPLACEMENTS ? out[p * OUT + c] : S(0));
        }
    }
}

template <typename T>
__launch_bounds__(36 * 4)
__global__ void cost_volume_large(const T* __restrict__ first, const T* __restrict__ second,
                                  T* __restrict__ volume, Strides of_first, Strides of_second,
                                  Strides of_volume, int channels, int height, int width,
                                  typename Sum<T>::type slope, int packs, int filled, int copied) {
    cost_volume_forward<T, 4, 1>(first, second, volume, of_first, of_second, of_volume,
                                     channels, height, width, slope, packs, filled, copied);
}

// For images too small to keep a GPU busy: fewer pixels a block, and more threads a pixel.
template <typename T>
__launch_bounds__(36 * 8)
__global__ void cost_volume_small(const T* __restrict__ first, const T* __restrict__ second,
                                  T* __restrict__ volume, Strides of_first, Strides of_second,
                                  Strides of_volume, int channels, int height, int width,
                                  typename Sum<T>::type slope, int packs, int filled, int copied) {
    cost_volume_forward<T, 1, 8>(first, second, volume, of_first, of_second, of_volume,
                                     channels, height, width, slope, packs, filled, copied);
}

// The gradient of one feature: at each pixel p and channel c the mean over the 81 displacements d
// of grad[d] times the other feature, both taken where p met the other image under d.
// For the first feature (SIGN = 1) that is grad[d](p) * second(p + d); for the second (SIGN = -1)
// grad[d](p - d) * first(p - d). `other` is padded; the result is (N, C, H, W).
// A block owns 16 pixels of one row; a thread owns one channel at a time of all of them, and walks
// along each of the nine rows of `other` once. 32 x (any) threads.
template <typename T, int SIGN>
__device__ void cost_volume_gradient(const T* __restrict__ grad, const T* __restrict__ other,
                                     T* __restrict__ result, int channels, int height, int width) {
    using S = typename Sum<T>::type;
    __shared__ S grad_tile[DISPLACEMENTS][TILE];
    const int tiles_x = (width + TILE - 1) / TILE;
    const int x0 = static_cast<int>(blockIdx.x % tiles_x) * TILE;
    const int y = static_cast<int>(blockIdx.x / tiles_x % height);
    const long long n = blockIdx.x / tiles_x / height;
    const int padded_width = width + 2 * MAX_DISPLACEMENT;
    const int padded_height = height + 2 * MAX_DISPLACEMENT;
    const int threads = 32 * blockDim.y, thread = threadIdx.y * 32 + threadIdx.x;

    for (int i = thread; i < DISPLACEMENTS * TILE; i += threads) {
        const int d = i / TILE, dy = d / SIDE - MAX_DISPLACEMENT, dx = d % SIDE - MAX_DISPLACEMENT;
        const int from_y = SIGN > 0 ? y : y - dy, x = x0 + i % TILE, from_x = SIGN > 0 ? x : x - dx;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        const long long row = (n * DISPLACEMENTS + d) * height + from_y;
        grad_tile[d][i % TILE] = inside ? widen(grad[row * width + from_x]) : S(0);
    }
    __syncthreads();

    for (int c = thread; c < channels; c += threads) {
        S sum[TILE] = {};
        for (int row = 0; row < SIDE; ++row) {
            // Padded coordinates: row 4 of the window is the pixel's own.
            const T* pixels =
                other + ((n * padded_height + y + row) * padded_width + x0) * channels + c;
            const int dy = SIGN > 0 ? row : SIDE - 1 - row;
#pragma unroll
            for (int step = 0; step < SPAN; ++step) {
                const S value = x0 + step < padded_width
                                    ? widen(pixels[static_cast<long long>(step) * channels])
                                    : S(0);
#pragma unroll
                for (int column = 0; column < SIDE; ++column) {
                    const int x = step - column;
                    if (x >= 0 && x < TILE) {
                        const int dx = SIGN > 0 ? column : SIDE - 1 - column;
                        sum[x] += grad_tile[dy * SIDE + dx][x] * value;
                    }
                }
            }
        }
        T* row = result + ((n * channels + c) * height + y) * width + x0;
#pragma unroll
        for (int x = 0; x < TILE; ++x) {
            if (x0 + x < width) row[x] = narrow<T>(sum[x] / channels);
        }
    }
}

template <typename T>
__global__ void cost_volume_gradient_first(const T* __restrict__ grad,
                                           const T* __restrict__ second, T* __restrict__ result,
                                           int channels, int height, int width) {
    cost_volume_gradient<T, 1>(grad, second, result, channels, height, width);
}

template <typename T>
__global__ void cost_volume_gradient_second(const T* __restrict__ grad,
                                            const T* __restrict__ first, T* __restrict__ result,
                                            int channels, int height, int width) {
    cost_volume_gradient<T, -1>(grad, first, result, channels, height, width);
}
