// The surfaces that are computed: gradients, stripes, noise, text and the like.
//
// Needs scene.cuh, arithmetic.cuh and hash.cuh before it; as those, it includes nothing of ours
// itself.

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
