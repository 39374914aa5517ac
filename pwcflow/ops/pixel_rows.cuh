// How kernels walk over the pixels of channels-last tensors, and sum them up channel by channel.
//
// Needs tensor.cuh before it; as that one, it includes nothing of ours itself. Grids and blocks are
// one-dimensional, with THREADS threads a block.

constexpr int THREADS = 256;

// Where a thread works. The threads of a block lie over `lanes` packs of channels times `rows`
// pixels. Each keeps its `pack` and walks over the pixels of its block's chunk, one of `chunks`;
// where a block's threads are too few for the channels, `groups` blocks share a chunk.
struct Place {
    int lanes, rows, lane, row, pack, chunk, chunks;
    bool idle;

    __device__ explicit Place(int packs) {
        const int block = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
        lanes = packs < THREADS ? packs : THREADS;
        rows = THREADS / lanes;
        lane = thread % lanes;
        row = thread / lanes;
        const int groups = (packs + lanes - 1) / lanes;
        pack = block % groups * lanes + lane;
        chunk = block / groups;
        chunks = static_cast<int>(gridDim.x) / groups;
        idle = row >= rows || pack >= packs;
    }
    __device__ long long first_pixel() const {
        return static_cast<long long>(chunk) * rows + row;
    }
    __device__ long long pixel_step() const { return static_cast<long long>(chunks) * rows; }
};

// partial (C, chunks) = `sum`, a thread's sums of its WIDTH channels, added up over the block's rows
// in a fixed order. All threads of a block call it, those that are idle with zeros.
template <int WIDTH, typename S>
__device__ void store_sums(const Place& place, const S (&sum)[WIDTH], S* __restrict__ partial) {
    __shared__ S sums[WIDTH][THREADS];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) sums[i][threadIdx.x] = sum[i];
    __syncthreads();
    // The upper half of the rows is added to the lower until one is left.
    for (int rows = place.rows; rows > 1; rows = (rows + 1) / 2) {
        const int half = (rows + 1) / 2;
        if (place.row + half < rows) {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                sums[i][threadIdx.x] += sums[i][threadIdx.x + half * place.lanes];
            }
        }
        __syncthreads();
    }
    if (place.idle || place.row > 0) return;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        const long long channel = place.pack * WIDTH + i;
        partial[channel * place.chunks + place.chunk] = sums[i][threadIdx.x];
    }
}
