// The cost volume of PWC-Net and its gradients on tensor cores, for GPUs from compute capability 8.0
// on: the volume of halves and floats, the gradients of halves.
//
// A row of 8 pixels of one image meets 16 of the other: of the matrix product of the two, a band of
// nine diagonals is wanted, 9 of 16 elements; tensor cores make up for that many times over.
//
// Otherwise as cost_volume.cu says of its kernels, which compute the rest.

#include "tensor.cuh"

#include "tensor_cores.cuh"

#include "cost_volume.cuh"

constexpr int STRIP = 8;  // neighbouring pixels of a row
static_assert(SIDE == STRIP + 1, "two strips hold what the pixels of one meet");

// Two (one) 8 x 8 matrices of 16-bit values with rows and columns exchanged, likewise.
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
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&sum)[4],
                                                            const unsigned (&a)[4], unsigned b0,
                                                            unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
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
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&sum)[4],
                                                            const unsigned (&a)[2], unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}

template <>
__device__ __forceinline__ void multiply_add<float>(float (&sum)[4], const unsigned (&a)[4],
                                                    unsigned b0, unsigned b1) {
    multiply_add_tf32(sum, a, b0, b1);
}

// 16 bytes of a pixel's channels, as the matrix products take them; floats in two parts.
template <typename T>
struct Channels {
    uint4 main;

    __device__ explicit Channels(uint4 bits) : main(bits) {}
};
template <>
struct Channels<float> {
    uint4 main, rest;

    __device__ explicit Channels(uint4 bits) {
        split_float(bits.x, main.x, rest.x);
        split_float(bits.y, main.y, rest.y);
        split_float(bits.z, main.z, rest.z);
        split_float(bits.w, main.w, rest.w);
    }
};

// sum (16 candidates x 8 pixels) += the products of the 64 bytes of channels that four threads hold
// of each. Which channel a matrix product takes for its k-th does not matter as long as both
// sides agree, so a thread's 16 bytes are its share of two products.
template <typename T>
__device__ __forceinline__ void multiply_channels(float (&sum)[4], const uint4& low,
                                                  const uint4& high, const uint4& pixels) {
    const unsigned front[4] = {low.x, high.x, low.y, high.y};
    const unsigned back[4] = {low.z, high.z, low.w, high.w};
    multiply_add<T>(sum, front, pixels.x, pixels.y);
    multiply_add<T>(sum, back, pixels.z, pixels.w);
}
template <typename T>
__device__ __forceinline__ void match(float (&sum)[4], const Channels<T>& low,
                                      const Channels<T>& high, const Channels<T>& pixels) {
    if constexpr (sizeof(T) == 2) {
        multiply_channels<T>(sum, low.main, high.main, pixels.main);
    } else {
        // Apart, since tensor cores cut the sums they add to off instead of rounding them.
        float part[4] = {};
        multiply_channels<T>(part, low.rest, high.rest, pixels.main);
        multiply_channels<T>(part, low.main, high.main, pixels.rest);
        multiply_channels<T>(part, low.main, high.main, pixels.main);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] += part[i];
    }
}

// 16 bytes of a pixel's channels, of which `present` are inside of the tensor; zeros for the others.
template <bool PACKED, typename T>
__device__ __forceinline__ uint4 load_channels(const T* from, long long step, int present) {
    uint4 bits;
    if constexpr (PACKED) {
        // Spelt out so that the compiler leaves all loads ahead of what needs them.
        asm volatile(
            "{ .reg .pred inside; setp.gt.s32 inside, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; "
            "mov.b32 %2, 0; mov.b32 %3, 0; @inside ld.global.v4.b32 {%0, %1, %2, %3}, [%4]; }"
            : "=&r"(bits.x), "=&r"(bits.y), "=&r"(bits.z), "=&r"(bits.w)
            : "l"(from), "r"(present)
            : "memory");
    } else {
        constexpr int COUNT = 16 / sizeof(T);
        T values[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            values[i] = i < present ? from[i * step] : narrow<T>(0.0f);
        }
        memcpy(&bits, values, sizeof(bits));
    }
    return bits;
}

// As cost_volume_forward in cost_volume.cu, by matrix products of strips: 8 pixels of a row of
// `first` times the 16 pixels of a row of `second` that they meet. Of the 16 x 8 products, 9 of each
// pixel are wanted; of the two that a thread holds of a pixel, candidates g and g + 8, just one is,
// but both where g is the pixel itself.
// A warp owns a strip in each of ROWS rows, at OFFSETS vertical displacements; a block owns ACROSS x
// DOWN such strips at all nine. Threads load the channels as the products take them, AHEAD times 64
// bytes of each pixel at a time; pixels that several warps need come from the cache. PACKED: by 16
// bytes, which needs neighbouring channels together, C in whole packs and each pixel at a multiple
// of 16 bytes. WHOLE: there are at most 64 bytes of channels.
// `filled` is the number of channels the volume has, the gap of zeros behind the 81 included; with
// `packs_out`, 16 bytes of them are written at a time, which needs the gap of seven. With `copied`,
// which needs PACKED and `packs_out`, the channels of `first` follow behind the gap.
// The slope is at most 1. 32 (9 / OFFSETS) ACROSS DOWN threads.
template <typename T, int ROWS, int OFFSETS, int ACROSS, int DOWN, int AHEAD, bool PACKED,
          bool WHOLE>
__launch_bounds__(32 * SIDE / OFFSETS * ACROSS * DOWN)
__global__ void cost_volume_strips(const T* __restrict__ first, const T* __restrict__ second,
                                   T* __restrict__ volume, Strides of_first, Strides of_second,
                                   Strides of_volume, int channels, int height, int width,
                                   float slope, int packs_out, int filled, int copied) {
    static_assert(SIDE % OFFSETS == 0, "the offsets of a warp are a part of the nine");
    static_assert(!WHOLE || AHEAD == 1, "there is nothing to load ahead");
    constexpr int SPLITS = SIDE / OFFSETS, OTHER_ROWS = ROWS + OFFSETS - 1;
    constexpr int COUNT = 16 / sizeof(T), CHUNK = 4 * COUNT;
    constexpr int FILLED = DISPLACEMENTS + 7, PACKS = FILLED / COUNT;
    // In 4-byte words 12 more than a multiple of 16: pixels that are written at a time then lie in
    // different banks.
    constexpr int PITCH = sizeof(T) == 2 ? FILLED : FILLED + 4;
    __shared__ uint4 tile[ACROSS * DOWN][ROWS * STRIP][PITCH / COUNT];

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int split = warp % SPLITS, strip = warp / SPLITS;
    const int tiles_x = (width + STRIP * ACROSS - 1) / (STRIP * ACROSS);
    const int tiles_y = (height + ROWS * DOWN - 1) / (ROWS * DOWN);
    const int x0 = (static_cast<int>(blockIdx.x % tiles_x) * ACROSS + strip % ACROSS) * STRIP;
    const int y0 = (static_cast<int>(blockIdx.x / tiles_x % tiles_y) * DOWN + strip / ACROSS) * ROWS;
    const long long n = blockIdx.x / tiles_x / tiles_y;
    // A matrix's row and which of the four parts of its 64 bytes; in a sum, the candidate and which
    // two of the pixels.
    const int group = lane / 4, part = lane % 4;

    const int x = x0 + group, x_low = x - MAX_DISPLACEMENT, x_high = x_low + STRIP;
    const int other_y0 = y0 - MAX_DISPLACEMENT + split * OFFSETS;
    volume += n * of_volume.n;
    const T* from = first + n * of_first.n + y0 * of_first.h + x * of_first.w +
                    part * COUNT * of_first.c;
    const T* low_from = second + n * of_second.n + other_y0 * of_second.h + x_low * of_second.w +
                        part * COUNT * of_second.c;
    const T* high_from = low_from + STRIP * of_second.w;

    T* const out = reinterpret_cast<T*>(tile[strip]);
    T* const places = out + split * OFFSETS * SIDE;
    const int pixel = 2 * part;
    T* const place = places + pixel * PITCH + ((group - pixel) & (STRIP - 1));
    T* const next_place = places + (pixel + 1) * PITCH + ((group - pixel - 1) & (STRIP - 1));
    T* const last_place = places + group * PITCH + STRIP;
    const float count = channels, scale = 1.0f / count;
    const auto put = [&](int row, int offset, const float (&sum)[4]) {
        const auto mean = [&](float total) {
            float value = total * scale;
            // Floats exactly rounded: the constant 1 has the mean 1.
            if constexpr (sizeof(T) == 4) value = fmaf(fmaf(-value, count, total), scale, value);
            return narrow<T>(fmaxf(value, value * slope));
        };
        const int step = row * STRIP * PITCH + offset * SIDE;
        place[step] = mean(group >= pixel ? sum[0] : sum[2]);
        next_place[step] = mean(group >= pixel + 1 ? sum[1] : sum[3]);
        if (group / 2 == part) last_place[step] = mean(group % 2 ? sum[3] : sum[2]);
    };

    if (split == SPLITS - 1) {  // the warp that writes what else lies in these packs
        for (int p = lane; p < ROWS * STRIP; p += 32) {
            for (int k = DISPLACEMENTS / COUNT; k < PACKS; ++k) {
                tile[strip][p][k] = make_uint4(0, 0, 0, 0);
            }
        }
        __syncwarp();
    }

    float sums[WHOLE ? 1 : ROWS][WHOLE ? 1 : OFFSETS][4] = {};
    for (int c0 = 0; WHOLE ? c0 < 1 : c0 < channels; c0 += AHEAD * CHUNK) {
        uint4 pixels[AHEAD][ROWS], low[AHEAD][OTHER_ROWS], high[AHEAD][OTHER_ROWS];
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ++ahead) {
            const int present = channels - c0 - ahead * CHUNK - part * COUNT;
            const int first_present = x < width ? present : 0;
            const int low_present = x_low >= 0 && x_low < width ? present : 0;
            const int high_present = x_high < width ? present : 0;
            const T *row_from = from, *low_row = low_from, *high_row = high_from;
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                pixels[ahead][row] = load_channels<PACKED>(
                    row_from, of_first.c, y0 + row < height ? first_present : 0);
                row_from += of_first.h;
            }
#pragma unroll
            for (int row = 0; row < OTHER_ROWS; ++row) {
                const bool inside = static_cast<unsigned>(other_y0 + row) < height;
                low[ahead][row] =
                    load_channels<PACKED>(low_row, of_second.c, inside ? low_present : 0);
                high[ahead][row] =
                    load_channels<PACKED>(high_row, of_second.c, inside ? high_present : 0);
                low_row += of_second.h;
                high_row += of_second.h;
            }
            from += CHUNK * of_first.c;
            low_from += CHUNK * of_second.c;
            high_from += CHUNK * of_second.c;
        }
        __syncwarp();  // no load may sink below this, to where it would be waited for
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ++ahead) {
            const int c = c0 + ahead * CHUNK + part * COUNT;
            if (PACKED && copied && split == 0 && x < width && c < channels) {
                T* to = volume + y0 * of_volume.h + x * of_volume.w + FILLED + c;
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    if (y0 + row < height) *reinterpret_cast<uint4*>(to) = pixels[ahead][row];
                    to += of_volume.h;
                }
            }
#pragma unroll
            for (int other_row = 0; other_row < OTHER_ROWS; ++other_row) {
                const Channels<T> of_low(low[ahead][other_row]), of_high(high[ahead][other_row]);
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const int offset = other_row - row;
                    if (offset < 0 || offset >= OFFSETS) continue;
                    const Channels<T> of_pixels(pixels[ahead][row]);
                    if constexpr (WHOLE) {
                        float sum[4] = {};
                        match<T>(sum, of_low, of_high, of_pixels);
                        put(row, offset, sum);
                    } else {
                        match<T>(sums[row][offset], of_low, of_high, of_pixels);
                    }
                }
            }
        }
    }
    if constexpr (!WHOLE) {
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
#pragma unroll
            for (int offset = 0; offset < OFFSETS; ++offset) put(row, offset, sums[row][offset]);
        }
    }
    if constexpr (SPLITS > 1) {
        __syncthreads();
    } else {
        __syncwarp();
    }

    volume += y0 * of_volume.h + x0 * of_volume.w;
    if (packs_out) {
        // As many threads as a pixel's packs need; the warps of a strip take turns.
        constexpr int LANES = PACKS <= 16 ? 16 : 32, AT_ONCE = 32 / LANES;
        const int k = lane % LANES, column0 = lane / LANES;
        if (k >= PACKS) return;
        const uint4* const packs = tile[strip][column0] + k;
        T* to_row = volume + column0 * of_volume.w + k * COUNT;
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            T* to = to_row;
#pragma unroll
            for (int column = 0; column < STRIP; column += AT_ONCE) {
                const bool mine = (row * STRIP + column) / AT_ONCE % SPLITS == split;
                if (mine && y0 + row < height && x0 + column + column0 < width) {
                    *reinterpret_cast<uint4*>(to) =
                        packs[(row * STRIP + column) * (PITCH / COUNT)];
                }
                to += AT_ONCE * of_volume.w;
            }
            to_row += of_volume.h;
        }
        return;
    }
    const bool by_channel = of_volume.c == 1;
    for (int i = split * 32 + lane; i < filled * STRIP; i += 32 * SPLITS) {
        const int c = by_channel ? i % filled : i / STRIP;
        const int column = by_channel ? i / filled : i % STRIP;
        T* const to = volume + c * of_volume.c + column * of_volume.w;
        if (x0 + column >= width) continue;
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (y0 + row >= height) break;
            to[row * of_volume.h] =
                c < DISPLACEMENTS ? out[(row * STRIP + column) * PITCH + c] : narrow<T>(0.0f);
        }
    }
}

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
