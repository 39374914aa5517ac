// Renders the two frames of a scene, their exact flow, and what a camera makes of them.
//
// Says in CUDA what render_reference.py, pattern_reference.py and codec_reference.py say in PyTorch,
// with the same names. Coordinates are pixels about the image's centre. Every kernel runs one thread a pixel on a one-dimensional grid.

#include <cuda_fp16.h>

constexpr int WAVES = 4;
constexpr int HARMONICS = 6;
constexpr float SEEN_THROUGH = 0.002f;  // what is left of the view behind almost solid layers

enum Shape { EVERYWHERE, BLOB, SUPERELLIPSE, RING, BARS, CUT_OUT };
enum Surface { PHOTO, SPRITE, TILES, GRADIENT, STRIPES, CHECKS, NOISE, PARTICLES, CELLS, TEXT };

// As LAYER in scene.py.
struct Layer {
    float motion[9];
    float waves[WAVES][5];
    float pose[4];
    int shape;
    float radius, aspect, softness;
    float amplitudes[HARMONICS], phases[HARMONICS];
    float exponent, inner, bars, duty;
    int surface, photo, sprite;
    float texture[6];
    float colours[2][3];
    float wavelength;
    unsigned seed;
    float gain[3];
};
static_assert(sizeof(Layer) == 292, "LAYER in scene.py has 73 words");

// As OPTICS in scene.py.
struct Optics {
    float shutter, defocus;
    float light[2][3][4];
    float spots[2][2][4];
    float fog, fog_colour[3];
    float gain[2][3];
    float contrast[2], brightness[2], gamma[2];
    float gray, noise, quantum;
    unsigned seed;
};
static_assert(sizeof(Optics) == 248, "OPTICS in scene.py has 62 words");

struct Textures {
    const uchar4* photos;
    int photo_height, photo_width;
    const uchar4* sprites;  // square, colours already multiplied by alpha
    int sprite_size;
};

__device__ __forceinline__ float3 operator+(float3 a, float3 b) {
    return make_float3(a.x + b.x, a.y + b.y, a.z + b.z);
}
__device__ __forceinline__ float3 operator*(float3 a, float b) {
    return make_float3(a.x * b, a.y * b, a.z * b);
}
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float clamp(float x, float low, float high) {
    return fminf(fmaxf(x, low), high);
}

// A hash after PCG (O'Neill 2014, permuted congruential generator): output 0..2^32 - 1.
__device__ __forceinline__ unsigned hashed(unsigned value) {
    const unsigned state = value * 747796405u + 2891336453u;
    const unsigned word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    return (word >> 22u) ^ word;
}
__device__ __forceinline__ float lattice(int x, int y, unsigned seed) {
    return hashed(x + hashed(y + hashed(seed))) * (1.0f / 4294967296.0f);
}

// Where frame 1's point p of a layer is in frame 2.
__device__ float2 moved(const Layer& layer, float2 p) {
    float2 q = p;
    for (int i = 0; i < WAVES; ++i) {
        const float* wave = layer.waves[i];
        const float s = sinf(wave[0] * p.x + wave[1] * p.y + wave[2]);
        q.x += wave[3] * s;
        q.y += wave[4] * s;
    }
    const float* m = layer.motion;
    const float w = 1.0f / (m[6] * q.x + m[7] * q.y + m[8]);
    return make_float2((m[0] * q.x + m[1] * q.y + m[2]) * w, (m[3] * q.x + m[4] * q.y + m[5]) * w);
}

// Frame-2 coordinates in the object's own frame.
__device__ __forceinline__ float2 in_object(const Layer& layer, float2 q) {
    const float x = q.x - layer.pose[0], y = q.y - layer.pose[1];
    return make_float2(layer.pose[2] * x + layer.pose[3] * y, layer.pose[2] * y - layer.pose[3] * x);
}

__device__ __forceinline__ float4 bilinear(uchar4 a, uchar4 b, uchar4 c, uchar4 d, float fx, float fy) {
    const float wa = (1 - fx) * (1 - fy), wb = fx * (1 - fy), wc = (1 - fx) * fy, wd = fx * fy;
    const float k = 1.0f / 255.0f;
    return make_float4((a.x * wa + b.x * wb + c.x * wc + d.x * wd) * k,
                       (a.y * wa + b.y * wb + c.y * wc + d.y * wd) * k,
                       (a.z * wa + b.z * wb + c.z * wc + d.z * wd) * k,
                       (a.w * wa + b.w * wb + c.w * wc + d.w * wd) * k);
}

__device__ __forceinline__ int mirrored(int i, int size) {
    i %= 2 * size;
    if (i < 0) i += 2 * size;
    return i < size ? i : 2 * size - 1 - i;
}

// The photograph at t, in its pixels about its centre, endlessly mirrored.
__device__ float3 photo_at(const Textures& textures, int index, float2 t) {
    const int h = textures.photo_height, w = textures.photo_width;
    const float x = t.x + 0.5f * (w - 1), y = t.y + 0.5f * (h - 1);
    const float x0 = floorf(x), y0 = floorf(y);
    const int left = mirrored((int)x0, w), right = mirrored((int)x0 + 1, w);
    const int top = mirrored((int)y0, h), bottom = mirrored((int)y0 + 1, h);
    const uchar4* photo = textures.photos + (long long)index * h * w;
    const float4 c = bilinear(photo[top * w + left], photo[top * w + right],
                              photo[bottom * w + left], photo[bottom * w + right], x - x0, y - y0);
    return make_float3(c.x, c.y, c.z);
}

// The cut-out at object coordinates X, premultiplied, with its alpha; nothing around it.
__device__ float4 sprite_at(const Textures& textures, const Layer& layer, float2 X) {
    const int size = textures.sprite_size;
    const float k = 0.5f * size / layer.radius;
    const float x = X.x * k + 0.5f * (size - 1), y = X.y * k + 0.5f * (size - 1);
    const float x0 = floorf(x), y0 = floorf(y);
    if (!(x0 >= -1 && x0 < size && y0 >= -1 && y0 < size)) return make_float4(0, 0, 0, 0);
    const int left = (int)x0, top = (int)y0;
    const uchar4* sprite = textures.sprites + (long long)layer.sprite * size * size;
    uchar4 corner[4];
    for (int i = 0; i < 4; ++i) {
        const int cx = left + (i & 1), cy = top + (i >> 1);
        const bool inside = cx >= 0 && cx < size && cy >= 0 && cy < size;
        corner[i] = inside ? sprite[cy * size + cx] : make_uchar4(0, 0, 0, 0);
    }
    return bilinear(corner[0], corner[1], corner[2], corner[3], x - x0, y - y0);
}

// Where in the photograph a tile that repeats has its texel of t.
__device__ __forceinline__ float2 tiled(const Textures& textures, const Layer& layer, float2 t) {
    const float x = t.x / layer.wavelength, y = t.y / layer.wavelength;
    const float corner_x = (lattice(0, 0, layer.seed) - 0.5f) * textures.photo_width;
    const float corner_y = (lattice(0, 0, layer.seed + 1) - 0.5f) * textures.photo_height;
    return make_float2(corner_x + (x - floorf(x)) * layer.wavelength,
                       corner_y + (y - floorf(y)) * layer.wavelength);
}

// Whether block (i, j) of a text is inked: glyphs of 3 x 5 random ones, each in 4 x 8, some blank.
__device__ __forceinline__ float inked(int i, int j, unsigned seed) {
    const unsigned glyph = hashed((i >> 2) + hashed((j >> 3) + hashed(seed)));
    const int column = i & 3, row = j & 7;
    if (column == 3 || row > 4 || (glyph >> 24) % 6 == 0) return 0.0f;
    return (glyph >> (row * 3 + column)) & 1u;
}

// How much of a computed surface at t is its second colour, 0..1.
__device__ float pattern(const Layer& layer, float2 t) {
    const float x = t.x / layer.wavelength, y = t.y / layer.wavelength;
    const float turn = 6.2831853f;
    switch (layer.surface) {
        case GRADIENT:
            return 0.5f + 0.25f * (sinf(turn * x) + sinf(turn * y));
        case STRIPES:
            return sigmoid(4.0f * sinf(turn * x));
        case CHECKS:
            return sigmoid(8.0f * sinf(turn * x) * sinf(turn * y));
        case NOISE: {
            float sum = 0.0f, weight = 0.5f, scale = 1.0f;
            for (int octave = 0; octave < 3; ++octave) {
                const float u = x * scale, v = y * scale, u0 = floorf(u), v0 = floorf(v);
                const float fu = u - u0, fv = v - v0;
                const float su = fu * fu * (3 - 2 * fu), sv = fv * fv * (3 - 2 * fv);
                const unsigned seed = layer.seed + octave;
                const int i = (int)u0, j = (int)v0;
                const float top = lattice(i, j, seed) * (1 - su) + lattice(i + 1, j, seed) * su;
                const float low =
                    lattice(i, j + 1, seed) * (1 - su) + lattice(i + 1, j + 1, seed) * su;
                sum += weight * (top * (1 - sv) + low * sv);
                weight *= 0.5f;
                scale *= 2.0f;
            }
            return sum / 0.875f;
        }
        case CELLS: {  // about random points, each of one shade, dark where two meet (Worley 1996)
            const float u0 = floorf(x), v0 = floorf(y);
            float nearest = 9.0f, next_nearest = 9.0f, shade = 0.0f;
            for (int dj = -1; dj <= 1; ++dj) {
                for (int di = -1; di <= 1; ++di) {
                    const int i = (int)u0 + di, j = (int)v0 + dj;
                    const float dx = x - (i + 0.15f + 0.7f * lattice(i, j, layer.seed));
                    const float dy = y - (j + 0.15f + 0.7f * lattice(i, j, layer.seed + 1));
                    const float distance = sqrtf(dx * dx + dy * dy);
                    if (distance < nearest) {
                        next_nearest = nearest;
                        nearest = distance;
                        shade = lattice(i, j, layer.seed + 2);
                    } else {
                        next_nearest = fminf(next_nearest, distance);
                    }
                }
            }
            const float gap = 8.0f * (next_nearest - nearest);
            return (0.4f + 0.6f * shade) * (1.0f - expf(-gap * gap));
        }
        case TEXT: {  // lines of glyphs: blocks of 1/8 line, smoothed over one texture pixel
            const float u = 8.0f * x - 0.5f, v = 8.0f * y - 0.5f, u0 = floorf(u), v0 = floorf(v);
            const float sharpness = fmaxf(layer.wavelength / 8.0f, 1.0f);
            const float fu = clamp((u - u0 - 0.5f) * sharpness + 0.5f, 0, 1);
            const float fv = clamp((v - v0 - 0.5f) * sharpness + 0.5f, 0, 1);
            const int i = (int)u0, j = (int)v0;
            const float top =
                inked(i, j, layer.seed) * (1 - fu) + inked(i + 1, j, layer.seed) * fu;
            const float low =
                inked(i, j + 1, layer.seed) * (1 - fu) + inked(i + 1, j + 1, layer.seed) * fu;
            return top * (1 - fv) + low * fv;
        }
        default: {  // PARTICLES: one dot somewhere in each cell
            const float u0 = floorf(x), v0 = floorf(y);
            float brightest = 0.0f;
            for (int dj = -1; dj <= 1; ++dj) {
                for (int di = -1; di <= 1; ++di) {
                    const int i = (int)u0 + di, j = (int)v0 + dj;
                    const float cx = i + lattice(i, j, layer.seed);
                    const float cy = j + lattice(i, j, layer.seed + 1);
                    const float size = 0.08f + 0.22f * lattice(i, j, layer.seed + 2);
                    const float dx = (x - cx) / size, dy = (y - cy) / size;
                    brightest = fmaxf(brightest, expf(-0.5f * (dx * dx + dy * dy)));
                }
            }
            return brightest;
        }
    }
}

struct Sample {
    float3 colour;
    float alpha;
};

// How solid the layer is at object coordinates X, 0..1.
__device__ float alpha_at(const Textures& textures, const Layer& layer, float2 X) {
    if (layer.shape == EVERYWHERE) return 1.0f;
    if (layer.shape == CUT_OUT) return sprite_at(textures, layer, X).w;
    const float u = X.x / layer.radius * layer.aspect, v = X.y / (layer.radius * layer.aspect);
    const float hardness = 2.0f * layer.radius / layer.softness;
    if (layer.shape == BLOB || layer.shape == RING) {
        const float rho = sqrtf(fmaxf(u * u + v * v, 1e-6f)), angle = atan2f(v, u);
        float outline = 1.0f;
        for (int i = 0; i < HARMONICS; ++i) {
            outline += layer.amplitudes[i] * cosf((i + 2) * angle + layer.phases[i]);
        }
        float alpha = sigmoid((outline - rho) * hardness);
        if (layer.shape == RING) alpha *= sigmoid((rho - outline * layer.inner) * hardness);
        return alpha;
    }
    const float e = layer.exponent;
    const float norm = powf(powf(fmaxf(fabsf(u), 1e-4f), e) + powf(fmaxf(fabsf(v), 1e-4f), e), 1 / e);
    float alpha = sigmoid((1.0f - norm) * hardness);
    if (layer.shape == BARS) {
        const float phase = u * layer.bars - floorf(u * layer.bars) - 0.5f;
        alpha *= sigmoid((0.5f * layer.duty - fabsf(phase)) * hardness / layer.bars);
    }
    return alpha;
}

__device__ Sample sample(const Textures& textures, const Layer& layer, float2 X) {
    Sample result;
    result.alpha = alpha_at(textures, layer, X);
    result.colour = make_float3(0, 0, 0);
    if (result.alpha < SEEN_THROUGH) {
        result.alpha = 0.0f;
        return result;
    }
    if (layer.surface == SPRITE) {
        const float4 c = sprite_at(textures, layer, X);
        result.colour = make_float3(c.x, c.y, c.z) * (1.0f / fmaxf(c.w, 1.0f / 255.0f));
    } else {
        const float* m = layer.texture;
        const float2 t =
            make_float2(m[0] * X.x + m[1] * X.y + m[2], m[3] * X.x + m[4] * X.y + m[5]);
        if (layer.surface == PHOTO || layer.surface == TILES) {
            const float2 at = layer.surface == TILES ? tiled(textures, layer, t) : t;
            result.colour = photo_at(textures, layer.photo, at);
        } else {
            const float k = pattern(layer, t);
            const float(*c)[3] = layer.colours;
            result.colour = make_float3(c[0][0], c[0][1], c[0][2]) * (1 - k) +
                            make_float3(c[1][0], c[1][1], c[1][2]) * k;
        }
    }
    result.colour.x = clamp(result.colour.x * layer.gain[0], 0, 1);
    result.colour.y = clamp(result.colour.y * layer.gain[1], 0, 1);
    result.colour.z = clamp(result.colour.z * layer.gain[2], 0, 1);
    return result;
}

// Whether an object may be seen at X at all: its outline reaches to `reach` at the most.
__device__ __forceinline__ bool near(const Layer& layer, float2 X) {
    if (layer.shape == EVERYWHERE) return true;
    const float stretch = fmaxf(layer.aspect, 1.0f / layer.aspect);
    const float reach = layer.radius * (layer.shape == CUT_OUT ? 1.5f : 2.5f * stretch) + 16.0f;
    return X.x * X.x + X.y * X.y < reach * reach;
}

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
                const Sample s = sample(textures, layer, X);
                first = first + s.colour * (s.alpha * first_left);
                first_left *= 1.0f - s.alpha;
                if (seen < 0 && s.alpha > 0.5f) {
                    seen = i;
                    target = q;
                }
            }
        }
        if (second_left > SEEN_THROUGH) {
            const float2 X = in_object(layer, p);
            if (near(layer, X)) {
                const Sample s = sample(textures, layer, X);
                second = second + s.colour * (s.alpha * second_left);
                second_left *= 1.0f - s.alpha;
            }
        }
    }
    const float to_x = target.x + 0.5f * (width - 1), to_y = target.y + 0.5f * (height - 1);
    bool clear = to_x >= 0 && to_x <= width - 1 && to_y >= 0 && to_y <= height - 1;
    for (int i = layers - 1; i > seen && clear; --i) {
        const Layer& layer = stack[i];
        if (layer.radius <= 0.0f) continue;
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
