// The cost volume of PWC-Net of halves and floats on tensor cores, for GPUs from compute capability
// 8.0 on.
//
// A row of 8 pixels of one image meets 16 of the other: of the matrix product of the two, a band of
// nine diagonals is wanted, 9 of 16 elements; tensor cores make up for that many times over.
//
// Otherwise as cost_volume.cu says of its kernels, which compute the rest: doubles, and on other GPUs.

#include "tensor.cuh"

#include "tensor_cores.cuh"

#include "cost_volume.cuh"

constexpr int STRIP = 8;  // neighbouring pixels of a row
static_assert(SIDE == STRIP + 1, "two strips hold what the pixels of one meet");

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
// DOWN such strips at all nine. Threads load the channels as the products take them; pixels that
// several warps need come from the cache. PACKED: by 16 bytes, which needs neighbouring channels
// together, C in whole packs and each pixel at a multiple of 16 bytes. WHOLE, which needs PACKED:
// there are at most so many times 64 bytes of channels, all of a pixel loaded at once, so that each
// sum is done, and written, before the next one starts; 0 where there may be more. AHEAD is what is
// on its way at a time: so many rows of `second` where WHOLE, else so many times 64 bytes of each
// pixel.
// `filled` is the number of channels the volume has, the gap of zeros behind the 81 included; with
// `packs_out`, 16 bytes of them are written at a time, which needs the gap of seven. With `copied`,
// which needs PACKED and `packs_out`, the channels of `first` follow behind the gap.
// The slope is at most 1. 32 (9 / OFFSETS) ACROSS DOWN threads; the grid counts blocks along x,
// blocks along y, and images.
template <typename T, int ROWS, int OFFSETS, int ACROSS, int DOWN, int AHEAD, bool PACKED,
          int WHOLE>
__launch_bounds__(32 * SIDE / OFFSETS * ACROSS * DOWN)
__global__ void cost_volume_strips(const T* __restrict__ first, const T* __restrict__ second,
                                   T* __restrict__ volume, Strides of_first, Strides of_second,
                                   Strides of_volume, int channels, int height, int width,
                                   float slope, int packs_out, int filled, int copied) {
    static_assert(SIDE % OFFSETS == 0, "the offsets of a warp are a part of the nine");
    static_assert(PACKED || !WHOLE, "what is all loaded at once is loaded in packs");
    constexpr int SPLITS = SIDE / OFFSETS, OTHER_ROWS = ROWS + OFFSETS - 1;
    static_assert(!WHOLE || AHEAD <= OTHER_ROWS, "no row is on its way that is not met");
    constexpr int COUNT = 16 / sizeof(T), CHUNK = 4 * COUNT;
    constexpr int FILLED = DISPLACEMENTS + 7, PACKS = FILLED / COUNT;
    // In 4-byte words 12 more than a multiple of 16: pixels that are written at a time then lie in
    // different banks.
    constexpr int PITCH = sizeof(T) == 2 ? FILLED : FILLED + 4;
    __shared__ uint4 tile[ACROSS * DOWN][ROWS * STRIP][PITCH / COUNT];

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int split = warp % SPLITS, strip = warp / SPLITS;
    const int x0 = (static_cast<int>(blockIdx.x) * ACROSS + strip % ACROSS) * STRIP;
    const int y0 = (static_cast<int>(blockIdx.y) * DOWN + strip / ACROSS) * ROWS;
    const long long n = blockIdx.z;
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

    const long long step = PACKED ? 1 : of_first.c, other_step = PACKED ? 1 : of_second.c;
    const bool pixel_inside = x < width, low_inside = x_low >= 0 && x_low < width;
    const bool high_inside = x_high < width;
    // A thread's share of the 64 bytes from channel c on: of the pixels, and of those of a row of
    // the other image; zeros outside of the image and behind the last channel.
    const auto load_pixels = [&](uint4 (&pixels)[ROWS], const T* row_from, int c) {
        const int present = pixel_inside ? channels - c - part * COUNT : 0;
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            pixels[row] = load_channels<PACKED>(row_from, step, y0 + row < height ? present : 0);
            row_from += of_first.h;
        }
    };
    const auto load_others = [&](uint4& low, uint4& high, const T* low_row, const T* high_row,
                                 int row, int c) {
        const int present = channels - c - part * COUNT;
        const int low_present = low_inside ? present : 0, high_present = high_inside ? present : 0;
        const bool inside = static_cast<unsigned>(other_y0 + row) < height;
        low = load_channels<PACKED>(low_row, other_step, inside ? low_present : 0);
        high = load_channels<PACKED>(high_row, other_step, inside ? high_present : 0);
    };
    const auto copy = [&](const uint4 (&pixels)[ROWS], int c) {
        if (PACKED && copied && split == 0 && pixel_inside && c + part * COUNT < channels) {
            T* to = volume + y0 * of_volume.h + x * of_volume.w + FILLED + c + part * COUNT;
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                if (y0 + row < height) *reinterpret_cast<uint4*>(to) = pixels[row];
                to += of_volume.h;
            }
        }
    };

    if constexpr (WHOLE > 0) {
        uint4 pixels[WHOLE][ROWS], low[AHEAD][WHOLE], high[AHEAD][WHOLE];
        const auto load_row = [&](int row) {
#pragma unroll
            for (int chunk = 0; chunk < WHOLE; ++chunk) {
                const long long to = row * of_second.h + chunk * CHUNK;
                load_others(low[row % AHEAD][chunk], high[row % AHEAD][chunk], low_from + to,
                            high_from + to, row, chunk * CHUNK);
            }
        };
#pragma unroll
        for (int chunk = 0; chunk < WHOLE; ++chunk) {
            load_pixels(pixels[chunk], from + chunk * CHUNK, chunk * CHUNK);
        }
#pragma unroll
        for (int row = 0; row < AHEAD; ++row) load_row(row);
        __syncwarp();  // no load may sink below this, to where it would be waited for
#pragma unroll
        for (int chunk = 0; chunk < WHOLE; ++chunk) copy(pixels[chunk], chunk * CHUNK);
#pragma unroll
        for (int other_row = 0; other_row < OTHER_ROWS; ++other_row) {
            uint4 low_now[WHOLE], high_now[WHOLE];
#pragma unroll
            for (int chunk = 0; chunk < WHOLE; ++chunk) {
                low_now[chunk] = low[other_row % AHEAD][chunk];
                high_now[chunk] = high[other_row % AHEAD][chunk];
            }
            if (other_row + AHEAD < OTHER_ROWS) {
                load_row(other_row + AHEAD);  // into the place of this row
                __syncwarp();                 // as above
            }
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                const int offset = other_row - row;
                if (offset < 0 || offset >= OFFSETS) continue;
                float sum[4] = {};
#pragma unroll
                for (int chunk = 0; chunk < WHOLE; ++chunk) {
                    match<T>(sum, Channels<T>(low_now[chunk]), Channels<T>(high_now[chunk]),
                             Channels<T>(pixels[chunk][row]));
                }
                put(row, offset, sum);
            }
        }
    } else {
        // Floats take three products where halves take one: time for the next channels to come.
        // Those that are not packed would not all fit in registers. In the last round nothing is
        // loaded, as all that comes next is behind the last channel.
        constexpr bool NEXT = PACKED && sizeof(T) == 4;
        float sums[ROWS][OFFSETS][4] = {};
        uint4 pixels[AHEAD][ROWS], low[AHEAD][OTHER_ROWS], high[AHEAD][OTHER_ROWS];
        const auto load = [&](int c0) {
#pragma unroll
            for (int chunk = 0; chunk < AHEAD; ++chunk) {
                const int c = c0 + chunk * CHUNK;
                load_pixels(pixels[chunk], from, c);
                const T *low_row = low_from, *high_row = high_from;
#pragma unroll
                for (int row = 0; row < OTHER_ROWS; ++row) {
                    load_others(low[chunk][row], high[chunk][row], low_row, high_row, row, c);
                    low_row += of_second.h;
                    high_row += of_second.h;
                }
                from += CHUNK * step;
                low_from += CHUNK * other_step;
                high_from += CHUNK * other_step;
            }
            __syncwarp();  // as above
        };
        const auto match_all = [&](const uint4 (&pixels)[AHEAD][ROWS],
                                   const uint4 (&low)[AHEAD][OTHER_ROWS],
                                   const uint4 (&high)[AHEAD][OTHER_ROWS]) {
#pragma unroll
            for (int chunk = 0; chunk < AHEAD; ++chunk) {
#pragma unroll
                for (int other_row = 0; other_row < OTHER_ROWS; ++other_row) {
                    const Channels<T> of_low(low[chunk][other_row]);
                    const Channels<T> of_high(high[chunk][other_row]);
#pragma unroll
                    for (int row = 0; row < ROWS; ++row) {
                        const int offset = other_row - row;
                        if (offset < 0 || offset >= OFFSETS) continue;
                        match<T>(sums[row][offset], of_low, of_high,
                                 Channels<T>(pixels[chunk][row]));
                    }
                }
            }
        };
        if constexpr (NEXT) load(0);
        for (int c0 = 0; c0 < channels; c0 += AHEAD * CHUNK) {
            if constexpr (!NEXT) load(c0);
#pragma unroll
            for (int chunk = 0; chunk < AHEAD; ++chunk) copy(pixels[chunk], c0 + chunk * CHUNK);
            if constexpr (NEXT) {
                uint4 pixels_now[AHEAD][ROWS];
                uint4 low_now[AHEAD][OTHER_ROWS], high_now[AHEAD][OTHER_ROWS];
                memcpy(pixels_now, pixels, sizeof(pixels));
                memcpy(low_now, low, sizeof(low));
                memcpy(high_now, high, sizeof(high));
                load(c0 + AHEAD * CHUNK);
                match_all(pixels_now, low_now, high_now);
            } else {
                match_all(pixels, low, high);
            }
        }
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
