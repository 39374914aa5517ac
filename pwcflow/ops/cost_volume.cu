// The cost volume of PWC-Net and its gradients.
//
// Needs CUDA 11.2 or newer: C++17, __half and __nv_bfloat16. Every size is an argument, every offset
// into a tensor is 64-bit, and every kernel runs on a one-dimensional grid, whose limit is 2^31 - 1
// blocks. Sums are float (double for double) in a fixed order, so results repeat bit for bit.
//
// Both features are first rearranged to (N, H + 2 pad, W + 2 pad, C): neighbouring channels lie
// together, and the zeros around the image spare the other kernels every test of the border.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int MAX_DISPLACEMENT = 4;
constexpr int SIDE = 2 * MAX_DISPLACEMENT + 1;
constexpr int DISPLACEMENTS = SIDE * SIDE;

template <typename T>
struct Sum {
    using type = float;
};
template <>
struct Sum<double> {
    using type = double;
};

// Spelt out because PyTorch's extension builds switch the implicit half conversions off.
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }

template <typename T>
__device__ __forceinline__ T narrow(typename Sum<T>::type value) {
    return value;
}
template <>
__device__ __forceinline__ __half narrow<__half>(float value) {
    return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

// (N, C, H, W) of any strides -> (N, H + 2 pad, W + 2 pad, C) with zeros around.
// A block owns 32 pixels of one padded row times 32 channels, and turns them in shared memory so
// that it both reads along x and writes along c. 32 x 8 threads.
template <typename T>
__global__ void rearrange(const T* __restrict__ source, T* __restrict__ target,
                          long long stride_n, long long stride_c, long long stride_h,
                          long long stride_w, int channels, int height, int width, int pad) {
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
            inside ? source[n * stride_n + (c0 + i) * stride_c + y * stride_h + x * stride_w]
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

// first (N, H, W, C) and second (N, H + 8, W + 8, C) -> volume (N, 81, H, W).
// A block owns 32 pixels of one row; thread (x, row) owns the nine horizontal displacements of one
// vertical displacement at one pixel. Channels pass through shared memory in chunks. 32 x 9 threads.
template <typename T>
__global__ void cost_volume_forward(const T* __restrict__ first, const T* __restrict__ second,
                                    T* __restrict__ volume, int channels, int height, int width) {
    using S = typename Sum<T>::type;
    constexpr int TILE = 32, SPAN = TILE + 2 * MAX_DISPLACEMENT;
    constexpr int CHUNK = 64 / sizeof(S);
    // The odd row length spreads neighbouring pixels over the shared-memory banks.
    __shared__ S first_tile[TILE][CHUNK + 1];
    __shared__ S second_tile[SIDE][SPAN][CHUNK + 1];
    const int tiles_x = (width + TILE - 1) / TILE;
    const int x0 = static_cast<int>(blockIdx.x % tiles_x) * TILE;
    const int y = static_cast<int>(blockIdx.x / tiles_x % height);
    const long long n = blockIdx.x / tiles_x / height;
    const int padded_width = width + 2 * MAX_DISPLACEMENT;
    const int padded_height = height + 2 * MAX_DISPLACEMENT;
    const T* first_row = first + (n * height + y) * width * channels;
    const T* second_rows = second + (n * padded_height + y) * padded_width * channels;
    const int thread = threadIdx.y * TILE + threadIdx.x;

    S sum[SIDE] = {};
    for (int c0 = 0; c0 < channels; c0 += CHUNK) {
        for (int i = thread; i < TILE * CHUNK; i += TILE * SIDE) {
            const int c = i % CHUNK, x = i / CHUNK;
            const bool inside = c0 + c < channels && x0 + x < width;
            first_tile[x][c] =
                inside ? widen(first_row[static_cast<long long>(x0 + x) * channels + c0 + c]) : S(0);
        }
        for (int i = thread; i < SIDE * SPAN * CHUNK; i += TILE * SIDE) {
            const int c = i % CHUNK, x = i / CHUNK % SPAN, row = i / CHUNK / SPAN;
            const bool inside = c0 + c < channels && x0 + x < padded_width;
            const long long pixel = static_cast<long long>(row) * padded_width + x0 + x;
            second_tile[row][x][c] =
                inside ? widen(second_rows[pixel * channels + c0 + c]) : S(0);
        }
        __syncthreads();
        for (int c = 0; c < CHUNK; ++c) {
            const S value = first_tile[threadIdx.x][c];
#pragma unroll
            for (int dx = 0; dx < SIDE; ++dx) {
                sum[dx] += value * second_tile[threadIdx.y][threadIdx.x + dx][c];
            }
        }
        __syncthreads();
    }
    const int x = x0 + threadIdx.x;
    if (x >= width) return;
    for (int dx = 0; dx < SIDE; ++dx) {
        const long long channel = n * DISPLACEMENTS + threadIdx.y * SIDE + dx;
        volume[(channel * height + y) * width + x] = narrow<T>(sum[dx] / channels);
    }
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
    constexpr int TILE = 16, SPAN = TILE + 2 * MAX_DISPLACEMENT;
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
