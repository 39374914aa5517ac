// What the kernels of the cost volume share: its measures, which pixels a block owns, and the way of
// channels into shared memory.
//
// Needs tensor.cuh before it; as that one, it includes nothing of ours itself.

constexpr int MAX_DISPLACEMENT = 4;
constexpr int SIDE = 2 * MAX_DISPLACEMENT + 1;
constexpr int DISPLACEMENTS = SIDE * SIDE;
constexpr int TILE = 16;  // pixels of a row that a block owns
// And those of the other image they meet.
[[maybe_unused]] constexpr int SPAN = TILE + 2 * MAX_DISPLACEMENT;

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
