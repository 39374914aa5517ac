// Renders the two frames of a scene, their exact flow, and what a camera makes of them.
//
// Says in CUDA what render_reference.py, pattern_reference.py and codec_reference.py say in PyTorch,
// with the same names. Coordinates are pixels about the image's centre. Every kernel runs one thread
// a pixel on a one-dimensional grid.

#include <cuda_fp16.h>

#include "scene.cuh"

#include "arithmetic.cuh"

#include "hash.cuh"

#include "textures.cuh"

#include "pattern.cuh"

#include "layer.cuh"

// frames (2, N, H, W) of RGB and 1, flow (N, 2, H, W) in px, visible (N, H, W): 1 where the point
// is also seen in frame 2.
extern "C" __global__ void compose(const Layer* __restrict__ scenes, int layers,
                                   const uchar4* __restrict__ photos, int photo_height,
                                   int photo_width, const uchar4* __restrict__ sprites,
                                   int sprite_size, float4* __restrict__ frames,
                                   float* __restrict__ flow, float* __restrict__ visible, int n,
                                   int height, int width) {
    const long long pixel = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long plane = (long long)height * width;
    if (pixel >= n * plane) return;
    const int x = pixel % width, y = pixel / width % height;
    const long long scene = pixel / plane;
    const Textures textures = {photos, photo_height, photo_width, sprites, sprite_size};
    const Layer* stack = scenes + scene * layers;
    const float2 p = make_float2(x - 0.5f * (width - 1), y - 0.5f * (height - 1));

    float3 first = make_float3(0, 0, 0), second = make_float3(0, 0, 0);
    float first_left = 1.0f, second_left = 1.0f;
    int seen = -1;  // the layer whose flow the pixel has
    float2 target = p;
    for (int i = layers - 1; i >= 0; --i) {
        const Layer& layer = stack[i];
        if (layer.radius <= 0.0f) continue;
        if (seen < 0 || first_left > SEEN_THROUGH) {
            const float2 q = moved(layer, p), X = in_object(layer, q);
            if (near(layer, X)) {
                const Sample s = sample(textures, layer, X, p, 0);
                first = first + s.colour * (s.alpha * first_left);
                first_left *= 1.0f - s.alpha;
                if (seen < 0 && layer.shade == 0.0f && s.alpha > 0.5f) {
                    seen = i;
                    target = q;
                }
            }
        }
        if (second_left > SEEN_THROUGH) {
            const float2 X = in_object(layer, p);
            if (near(layer, X)) {
                const Sample s = sample(textures, layer, X, p, 1);
                second = second + s.colour * (s.alpha * second_left);
                second_left *= 1.0f - s.alpha;
            }
        }
    }
    const float to_x = target.x + 0.5f * (width - 1), to_y = target.y + 0.5f * (height - 1);
    bool clear = to_x >= 0 && to_x <= width - 1 && to_y >= 0 && to_y <= height - 1;
    for (int i = layers - 1; i > seen && clear; --i) {
        const Layer& layer = stack[i];
        if (layer.radius <= 0.0f || layer.shade > 0.0f) continue;
        const float2 X = in_object(layer, target);
        clear = !(near(layer, X) && alpha_at(textures, layer, X) > 0.5f);
    }
    frames[pixel] = make_float4(first.x, first.y, first.z, 1.0f);
    frames[n * plane + pixel] = make_float4(second.x, second.y, second.z, 1.0f);
    const long long at = scene * 2 * plane + (long long)y * width + x;
    flow[at] = target.x - p.x;
    flow[at + plane] = target.y - p.y;
    visible[pixel] = clear ? 1.0f : 0.0f;
}

// Motion blur: each frame averaged along the flow, over the share of it that the shutter is open.
extern "C" __global__ void blur(const Optics* __restrict__ optics, const float4* __restrict__ frames,
                                const float* __restrict__ flow, float4* __restrict__ blurred, int n,
                                int height, int width) {
    constexpr int TAPS = 7;
    constexpr float LONGEST = 25.0f;
    const long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long plane = (long long)height * width;
    if (index >= 2 * n * plane) return;
    const int x = index % width, y = index / width % height;
    const long long scene = index / plane % n;
    const float shutter = optics[scene].shutter;
    if (shutter == 0.0f) {
        blurred[index] = frames[index];
        return;
    }
    const long long at = scene * 2 * plane + (long long)y * width + x;
    const float u = clamp(flow[at] * shutter, -LONGEST, LONGEST);
    const float v = clamp(flow[at + plane] * shutter, -LONGEST, LONGEST);
    const float4* frame = frames + index / plane * plane;
    float3 sum = make_float3(0, 0, 0);
    for (int i = 0; i < TAPS; ++i) {
        const float t = i / (TAPS - 1.0f) - 0.5f;
        const float sx = clamp(x + u * t, 0, width - 1), sy = clamp(y + v * t, 0, height - 1);
        const int left = (int)sx, top = (int)sy;
        const int right = min(left + 1, width - 1), bottom = min(top + 1, height - 1);
        const float fx = sx - left, fy = sy - top;
        const float4 a = frame[(long long)top * width + left];
        const float4 b = frame[(long long)top * width + right];
        const float4 c = frame[(long long)bottom * width + left];
        const float4 d = frame[(long long)bottom * width + right];
        sum = sum + make_float3(a.x, a.y, a.z) * ((1 - fx) * (1 - fy)) +
              make_float3(b.x, b.y, b.z) * (fx * (1 - fy)) +
              make_float3(c.x, c.y, c.z) * ((1 - fx) * fy) + make_float3(d.x, d.y, d.z) * (fx * fy);
    }
    blurred[index] = make_float4(sum.x / TAPS, sum.y / TAPS, sum.z / TAPS, 1.0f);
}

// Defocus, light, highlights, fog, colour and noise; images (2, N, H, W, 8): blue, green, red and zeros.
extern "C" __global__ void expose(const Optics* __restrict__ optics,
                                  const float4* __restrict__ frames, uint4* __restrict__ images,
                                  int n, int height, int width) {
    const long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long plane = (long long)height * width;
    if (index >= 2 * n * plane) return;
    const int x = index % width, y = index / width % height;
    const long long scene = index / plane % n;
    const int second = index / plane >= n;
    const Optics& o = optics[scene];
    const float4* frame = frames + index / plane * plane;
    float colour[3] = {frame[(long long)y * width + x].x, frame[(long long)y * width + x].y,
                       frame[(long long)y * width + x].z};
    if (o.defocus > 0.0f) {
        const float binomial[5] = {1 / 16.0f, 4 / 16.0f, 6 / 16.0f, 4 / 16.0f, 1 / 16.0f};
        float3 soft = make_float3(0, 0, 0);
        for (int j = 0; j < 5; ++j) {
            for (int i = 0; i < 5; ++i) {
                const int sx = min(max(x + i - 2, 0), width - 1);
                const int sy = min(max(y + j - 2, 0), height - 1);
                const float4 c = frame[(long long)sy * width + sx];
                soft = soft + make_float3(c.x, c.y, c.z) * (binomial[i] * binomial[j]);
            }
        }
        colour[0] += (soft.x - colour[0]) * o.defocus;
        colour[1] += (soft.y - colour[1]) * o.defocus;
        colour[2] += (soft.z - colour[2]) * o.defocus;
    }
    const float px = x - 0.5f * (width - 1), py = y - 0.5f * (height - 1);
    float light = 0.0f;
    for (int i = 0; i < 3; ++i) {
        const float* wave = o.light[second][i];
        light += wave[3] * sinf(wave[0] * px + wave[1] * py + wave[2]);
    }
    light = expf(light);
    float glow = 0.0f;
    for (int i = 0; i < 2; ++i) {
        const float* spot = o.spots[second][i];
        if (spot[3] == 0.0f) continue;
        const float dx = (px - spot[0]) * spot[2], dy = (py - spot[1]) * spot[2];
        const float blob = spot[3] * expf(-0.5f * (dx * dx + dy * dy));
        glow += fmaxf(blob, 0.0f);
        light *= 1.0f + fminf(blob, 0.0f);
    }
    for (int c = 0; c < 3; ++c) {
        float value = colour[c] * light + glow;
        value += (o.fog_colour[c] - value) * o.fog;
        value = ((value - 0.5f) * o.contrast[second] + 0.5f + o.brightness[second]);
        value *= o.gain[second][c];
        colour[c] = powf(clamp(value, 1e-4f, 1.0f), o.gamma[second]);
    }
    if (o.gray > 0.0f) {
        const float mean = (colour[0] + colour[1] + colour[2]) / 3.0f;
        for (int c = 0; c < 3; ++c) colour[c] = mean;
    }
    if (o.noise > 0.0f) {
        // Box and Muller 1958: two uniform numbers make one normal one.
        unsigned state = hashed((unsigned)(y * width + x) + hashed(o.seed + second));
        for (int c = 0; c < 3; ++c) {
            state = hashed(state);
            const float a = ((state >> 8) + 1) * (1.0f / 16777216.0f);
            state = hashed(state);
            const float b = (state >> 8) * (1.0f / 16777216.0f);
            colour[c] += o.noise * sqrtf(-2.0f * logf(a)) * cosf(6.2831853f * b);
        }
    }
    __half2 packed[4];
    packed[0] = __floats2half2_rn(clamp(colour[2], 0, 1), clamp(colour[1], 0, 1));
    packed[1] = __floats2half2_rn(clamp(colour[0], 0, 1), 0.0f);
    packed[2] = packed[3] = __floats2half2_rn(0.0f, 0.0f);
    images[index] = *reinterpret_cast<uint4*>(packed);
}

// What a video codec does to images (2, N, H, W, 8), in place: `compress` in codec_reference.py.
// A block of 64 threads owns 8 x 8 pixels; the grid has 2 N ceil(H / 8) ceil(W / 8) of them.
extern "C" __global__ void compress(const Optics* __restrict__ optics, uint4* __restrict__ images,
                                    int n, int height, int width) {
    __shared__ float basis[8][8], tile[3][8][8], between[3][8][8];
    const int across = (width + 7) / 8, down = (height + 7) / 8;
    const long long image = blockIdx.x / (across * down);
    const float quantum = optics[image % n].quantum;
    if (quantum == 0.0f) return;  // all of the block's threads do
    const int x = threadIdx.x % 8, y = threadIdx.x / 8;
    const int px = blockIdx.x % across * 8 + x, py = blockIdx.x / across % down * 8 + y;
    // Blocks over the right and lower edges repeat the last pixels.
    uint4* pixel = images + (image * height + min(py, height - 1)) * width + min(px, width - 1);
    uint4 value = *pixel;
    __half2* packed = reinterpret_cast<__half2*>(&value);
    const float2 blue_green = __half22float2(packed[0]);
    const float red = __low2float(packed[1]);
    const float luma = 0.299f * red + 0.587f * blue_green.y + 0.114f * blue_green.x;
    tile[0][y][x] = luma;
    tile[1][y][x] = (blue_green.x - luma) / 1.772f;
    tile[2][y][x] = (red - luma) / 1.402f;
    basis[y][x] = (y == 0 ? 0.35355339f : 0.5f) * cospif((2 * x + 1) * y / 16.0f);
    __syncthreads();
    for (int c = 0; c < 3; ++c) {
        float sum = 0.0f;
        for (int k = 0; k < 8; ++k) sum += basis[x][k] * tile[c][y][k];
        between[c][y][x] = sum;
    }
    __syncthreads();
    for (int c = 0; c < 3; ++c) {
        float sum = 0.0f;
        for (int k = 0; k < 8; ++k) sum += basis[y][k] * between[c][k][x];
        const float step = quantum * (c == 0 ? 1.0f : 2.0f) * (1 + x + y);
        tile[c][y][x] = rintf(sum / step) * step;
    }
    __syncthreads();
    for (int c = 0; c < 3; ++c) {
        float sum = 0.0f;
        for (int k = 0; k < 8; ++k) sum += basis[k][y] * tile[c][k][x];
        between[c][y][x] = sum;
    }
    __syncthreads();
    float plane[3];
    for (int c = 0; c < 3; ++c) {
        plane[c] = 0.0f;
        for (int k = 0; k < 8; ++k) plane[c] += between[c][y][k] * basis[k][x];
    }
    if (px >= width || py >= height) return;
    const float b = plane[0] + 1.772f * plane[1], r = plane[0] + 1.402f * plane[2];
    const float g = (plane[0] - 0.299f * r - 0.114f * b) / 0.587f;
    packed[0] = __floats2half2_rn(clamp(b, 0, 1), clamp(g, 0, 1));
    packed[1] = __floats2half2_rn(clamp(r, 0, 1), 0.0f);
    *pixel = value;
}
