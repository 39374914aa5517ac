// The cost volume of PWC-Net and its gradients.
//
// Needs CUDA 11.2 or newer: C++17, __half and __nv_bfloat16. Every size is an argument, every offset
// into a tensor is 64-bit, and every kernel runs on a one-dimensional grid, whose limit is 2^31 - 1
// blocks. Sums are float (double for double) in a fixed order, so results repeat bit for bit.
//
// Two kinds of kernels: those named `..._halves` compute on tensor cores, for 16-bit types and GPUs
// from compute capability 8.0 on; the others compute anything anywhere. A row of 16 pixels of one
// image meets 24 of the other: as a matrix product they are 16 x 24, of which a band of nine
// diagonals is wanted, a third; tensor cores make up for that many times over.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int MAX_DISPLACEMENT = 4;
constexpr int SIDE = 2 * MAX_DISPLACEMENT + 1;
constexpr int DISPLACEMENTS = SIDE * SIDE;
constexpr int TILE = 16;                            // pixels of a row that a block owns
constexpr int SPAN = TILE + 2 * MAX_DISPLACEMENT;   // and those of the other image they meet

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

// Where the elements of a tensor (N, C, H, W) lie, in elements. Passed by value, as are its sizes.
struct Strides {
    long long n, c, h, w;
};

// Which pixels a block owns: TILE of each of `rows` rows, from (x0, y0) on, of image n.
struct Place {
    long long n;
    int x0, y0;

    __device__ Place(long long block, int height, int width, int rows) {
        const int tiles_x = (width + TILE - 1) / TILE, tiles_y = (height + rows - 1) / rows;
        x0 = static_cast<int>(block % tiles_x) * TILE;
        y0 = static_cast<int>(block / tiles_x % tiles_y) * rows;
        n = block / tiles_x / tiles_y;
    }
};

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

// 16 bytes of global memory to shared memory, or as many zeros; what waits for them is
// `wait_for_copies`. Both pointers must be multiples of 16 bytes.
__device__ __forceinline__ void copy_pack(void* to, const void* from, bool inside) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
#else
    *static_cast<uint4*>(to) =
        inside ? *static_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
#endif
}
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Channels c0 .. c0 + chunk of ROWS x COLUMNS pixels from (x0, y0) on -> tile, where a pixel takes
// `pitch` and a row `row_pitch` elements; zeros outside of the image and behind the last channel.
// `packs`: 16 bytes at a time, which needs neighbouring channels together, C in whole packs, every
// pixel at a multiple of 16 bytes, and S to be T. The caller waits for the copies.
template <int ROWS, int COLUMNS, typename T, typename S>
__device__ __forceinline__ void load_tile(S* __restrict__ tile, const T* __restrict__ image,
                                          Strides of, int y0, int x0, int c0, int chunk, int pitch,
                                          int row_pitch, int channels, int height, int width,
                                          bool packs) {
    const int threads = blockDim.x, thread = threadIdx.x;
    if constexpr (sizeof(S) == sizeof(T)) {
        if (packs) {
            constexpr int PACK = 16 / sizeof(T);
            const int per_pixel = chunk / PACK, pixels_at_once = threads / per_pixel;
            if (thread >= pixels_at_once * per_pixel) return;
            const int c = thread % per_pixel * PACK;
            const bool present = c0 + c < channels;
            for (int p = thread / per_pixel; p < ROWS * COLUMNS; p += pixels_at_once) {
                const int y = y0 + p / COLUMNS, x = x0 + p % COLUMNS;
                const bool inside = present && y >= 0 && y < height && x >= 0 && x < width;
                const T* from = inside ? image + y * of.h + x * of.w + c0 + c : image;
                copy_pack(tile + p / COLUMNS * row_pitch + p % COLUMNS * pitch + c, from, inside);
            }
            return;
        }
    }
    for (int i = thread; i < ROWS * COLUMNS * chunk; i += threads) {
        // In the order in which the image lies in memory, whichever that is.
        const int p = of.c == 1 ? i / chunk : i % (ROWS * COLUMNS);
        const int c = of.c == 1 ? i % chunk : i / (ROWS * COLUMNS);
        const int y = y0 + p / COLUMNS, x = x0 + p % COLUMNS;
        const bool inside = c0 + c < channels && y >= 0 && y < height && x >= 0 && x < width;
        const T value = inside ? image[(c0 + c) * of.c + y * of.h + x * of.w] : T(0.0f);
        S& place = tile[p / COLUMNS * row_pitch + p % COLUMNS * pitch + c];
        if constexpr (sizeof(S) == sizeof(T)) {
            place = value;
        } else {
            place = widen(value);
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

// ---- Tensor cores ------------------------------------------------------------------------------

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int PACK = 8;  // 16-bit values in 16 bytes

// Four (two) 8 x 8 matrices of 16-bit values, whose rows the threads point at.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_matrices(unsigned (&to)[2], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_transposed(unsigned (&to)[2], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_transposed(unsigned& to, const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(to)
                 : "r"(address)
                 : "memory");
}

// sum (16 x 8) += a (16 x 16) b (16 x 8).
template <typename T>
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1);
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&sum)[4], const unsigned (&a)[4],
                                                     unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&sum)[4],
                                                            const unsigned (&a)[4], unsigned b0,
                                                            unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// sum (16 x 8) += a (16 x 8) b (8 x 8).
template <typename T>
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[2], unsigned b);
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&sum)[4], const unsigned (&a)[2],
                                                     unsigned b) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&sum)[4],
                                                            const unsigned (&a)[2], unsigned b) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}

// As cost_volume_forward. A block owns TILE pixels of each of ROWS rows; a warp owns one vertical
// displacement. `chunk` channels at a time, a multiple of 16, pass through shared memory, whose
// pitch of eight more keeps the rows of a matrix in different banks. 32 x 9 threads.
// `filled` is the number of channels the volume has, the gap of zeros behind the 81 included; with
// `packs_out`, 16 bytes of them are written at a time, which needs the gap of seven. With `copied`,
// which needs `packs_in` and `packs_out`, the channels of `first` follow behind the gap.
template <typename T, int ROWS>
__device__ void cost_volume_on_tensor_cores(
    const T* __restrict__ first, const T* __restrict__ second, T* __restrict__ volume,
    Strides of_first, Strides of_second, Strides of_volume, int channels, int height, int width,
    float slope, int chunk, int packs_in, int packs_out, int filled, int copied) {
    constexpr int NEIGHBOURS = SPAN / 8;
    constexpr int OUT = DISPLACEMENTS + 7;
    extern __shared__ uint4 memory[];
    const int pitch = chunk + 8;
    T* first_tile = reinterpret_cast<T*>(memory);           // [ROWS][TILE][pitch]
    T* second_tile = first_tile + ROWS * TILE * pitch;      // [ROWS + 8][SPAN][pitch]
    const Place place(blockIdx.x, height, width, ROWS);
    const int lane = threadIdx.x % 32, dy = threadIdx.x / 32;
    first += place.n * of_first.n;
    second += place.n * of_second.n;
    volume += place.n * of_volume.n;

    float sum[ROWS][NEIGHBOURS][4] = {};
    for (int c0 = 0; c0 < channels; c0 += chunk) {
        load_tile<ROWS, TILE>(first_tile, first, of_first, place.y0, place.x0, c0, chunk, pitch,
                              TILE * pitch, channels, height, width, packs_in != 0);
        load_tile<ROWS + 2 * MAX_DISPLACEMENT, SPAN>(
            second_tile, second, of_second, place.y0 - MAX_DISPLACEMENT,
            place.x0 - MAX_DISPLACEMENT, c0, chunk, pitch, SPAN * pitch, channels, height, width,
            packs_in != 0);
        wait_for_copies();
        __syncthreads();
        if (copied) {
            const int packs = min(chunk, channels - c0) / PACK;
            for (int i = threadIdx.x; i < ROWS * TILE * packs; i += blockDim.x) {
                const int p = i / packs, c = i % packs * PACK;
                const int y = place.y0 + p / TILE, x = place.x0 + p % TILE;
                if (y < height && x < width) {
                    *reinterpret_cast<uint4*>(volume + y * of_volume.h + x * of_volume.w + OUT +
                                              c0 + c) =
                        *reinterpret_cast<const uint4*>(first_tile + p * pitch + c);
                }
            }
        }
        for (int k = 0; k < chunk; k += 16) {
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                unsigned a[4], b[4], b_last[2];
                load_matrices(a, first_tile + (row * TILE + lane % 16) * pitch + k + lane / 16 * 8);
                const T* others = second_tile + (row + dy) * SPAN * pitch + k;
                load_matrices(b, others + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
                load_matrices(b_last, others + (16 + lane % 8) * pitch + lane / 8 % 2 * 8);
                multiply_add<T>(sum[row][0], a, b[0], b[1]);
                multiply_add<T>(sum[row][1], a, b[2], b[3]);
                multiply_add<T>(sum[row][2], a, b_last[0], b_last[1]);
            }
        }
        __syncthreads();
    }

    const float scale = 1.0f / channels;
    // Through shared memory, as the threads' sums are scattered: [ROWS][TILE][OUT].
    T* out = reinterpret_cast<T*>(memory);
    for (int i = threadIdx.x; i < ROWS * TILE * 7; i += blockDim.x) {
        out[i / 7 * OUT + DISPLACEMENTS + i % 7] = narrow<T>(0.0f);
    }
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
#pragma unroll
        for (int neighbour = 0; neighbour < NEIGHBOURS; ++neighbour) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int x = lane / 4 + i / 2 * 8;
                const int dx = neighbour * 8 + lane % 4 * 2 + i % 2 - x;
                const float mean = sum[row][neighbour][i] * scale;
                if (dx >= 0 && dx < SIDE) {
                    out[(row * TILE + x) * OUT + dy * SIDE + dx] =
                        narrow<T>(mean > 0.0f ? mean : mean * slope);
                }
            }
        }
    }
    __syncthreads();
    if (packs_out) {
        constexpr int PACKS = OUT / PACK;
        for (int i = threadIdx.x; i < ROWS * TILE * PACKS; i += blockDim.x) {
            const int p = i / PACKS, c = i % PACKS * PACK;
            const int y = place.y0 + p / TILE, x = place.x0 + p % TILE;
            if (y < height && x < width) {
                *reinterpret_cast<uint4*>(volume + y * of_volume.h + x * of_volume.w + c) =
                    *reinterpret_cast<const uint4*>(out + p * OUT + c);
            }
        }
        return;
    }
    for (int i = threadIdx.x; i < ROWS * TILE * filled; i += blockDim.x) {
        const int p = of_volume.c == 1 ? i / filled : i % (ROWS * TILE);
        const int c = of_volume.c == 1 ? i % filled : i / (ROWS * TILE);
        const int y = place.y0 + p / TILE, x = place.x0 + p % TILE;
        if (y < height && x < width) {
            volume[c * of_volume.c + y * of_volume.h + x * of_volume.w] = out[p * OUT + c];
        }
    }
}

template <typename T>
__launch_bounds__(32 * 9)
__global__ void cost_volume_large_halves(
    const T* __restrict__ first, const T* __restrict__ second, T* __restrict__ volume,
    Strides of_first, Strides of_second, Strides of_volume, int channels, int height, int width,
    float slope, int chunk, int packs_in, int packs_out, int filled, int copied) {
    cost_volume_on_tensor_cores<T, 4>(first, second, volume, of_first, of_second, of_volume,
                                      channels, height, width, slope, chunk, packs_in, packs_out,
                                      filled, copied);
}

template <typename T>
__launch_bounds__(32 * 9)
__global__ void cost_volume_medium_halves(
    const T* __restrict__ first, const T* __restrict__ second, T* __restrict__ volume,
    Strides of_first, Strides of_second, Strides of_volume, int channels, int height, int width,
    float slope, int chunk, int packs_in, int packs_out, int filled, int copied) {
    cost_volume_on_tensor_cores<T, 2>(first, second, volume, of_first, of_second, of_volume,
                                      channels, height, width, slope, chunk, packs_in, packs_out,
                                      filled, copied);
}

template <typename T>
__launch_bounds__(32 * 9)
__global__ void cost_volume_small_halves(
    const T* __restrict__ first, const T* __restrict__ second, T* __restrict__ volume,
    Strides of_first, Strides of_second, Strides of_volume, int channels, int height, int width,
    float slope, int chunk, int packs_in, int packs_out, int filled, int copied) {
    cost_volume_on_tensor_cores<T, 1>(first, second, volume, of_first, of_second, of_volume,
                                      channels, height, width, slope, chunk, packs_in, packs_out,
                                      filled, copied);
}

// As cost_volume_gradient. A block owns TILE pixels of each of two rows, and GROUP channels of all
// it is given. The gradient at the displacements of one vertical offset is a banded matrix,
// TILE x SPAN, that multiplies the SPAN pixels of the other feature. Eight warps: each owns one row
// and a quarter of the channels. 256 threads.
template <typename T, int SIGN>
__device__ void gradient_on_tensor_cores(const T* __restrict__ grad, const T* __restrict__ other,
                                         T* __restrict__ result, Strides of_grad, Strides of_other,
                                         Strides of_result, long long block, int channels,
                                         int height, int width, int packs_in, int pairs_out) {
    constexpr int ROWS = 2, GROUP = 64, PITCH = GROUP + 8, BAND = SPAN + 8;
    constexpr int OTHER_ROWS = ROWS + 2 * MAX_DISPLACEMENT, ELEMENTS = ROWS * DISPLACEMENTS * TILE;
    constexpr int THREADS = 256, AT_ONCE = 6;
    extern __shared__ uint4 memory[];
    T* const bands = reinterpret_cast<T*>(memory);  // [row][offset][pixel][neighbour]
    T* const tile = bands + ROWS * SIDE * TILE * BAND;
    const int groups = (channels + GROUP - 1) / GROUP;
    const int c0 = static_cast<int>(block % groups) * GROUP;
    const Place place(block / groups, height, width, ROWS);
    const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 % 2;
    const int quarter = thread / 64;
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
        const T* pixels = tile + (row + offset) * SPAN * PITCH + quarter * 16;
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
            const int c = c0 + quarter * 16 + j * 8 + lane % 4 * 2;
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
template <typename T>
__launch_bounds__(256)
__global__ void cost_volume_gradients_halves(
    const T* __restrict__ grad, const T* __restrict__ first, const T* __restrict__ second,
    T* __restrict__ grad_first, T* __restrict__ grad_second, Strides of_grad, Strides of_first,
    Strides of_second, Strides of_grad_first, Strides of_grad_second, int channels, int height,
    int width, int packs_in, int pairs_out) {
    const long long block = blockIdx.x / 2;
    if (blockIdx.x % 2 == 0) {
        gradient_on_tensor_cores<T, 1>(grad, second, grad_first, of_grad, of_second, of_grad_first,
                                       block, channels, height, width, packs_in, pairs_out);
    } else {
        gradient_on_tensor_cores<T, -1>(grad, first, grad_second, of_grad, of_first,
                                        of_grad_second, block, channels, height, width, packs_in,
                                        pairs_out);
    }
}

#endif
