// One layer of a scene: how it moves, where it is solid, and its colours.
//
// Needs scene.cuh, arithmetic.cuh, textures.cuh and pattern.cuh before it; as those, it includes
// nothing of ours itself.

constexpr float SEEN_THROUGH = 0.002f;  // what is left of the view behind almost solid layers

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

// How deep (x, y), in radii, lies in the strut that it lies deepest in; below 0 outside all.
__device__ float depth_in_struts(const Layer& layer, float x, float y) {
    float depth = -1e9f;
    for (int i = 0; i < STRUTS; ++i) {
        const float* strut = layer.struts[i];
        if (strut[4] <= 0.0f) continue;
        const float dx = strut[2] - strut[0], dy = strut[3] - strut[1];
        const float rx = x - strut[0], ry = y - strut[1];
        const float t = clamp((rx * dx + ry * dy) / fmaxf(dx * dx + dy * dy, 1e-6f), 0.0f, 1.0f);
        const float ex = rx - t * dx, ey = ry - t * dy;
        depth = fmaxf(depth, strut[4] - sqrtf(ex * ex + ey * ey));
    }
    return depth;
}

// An affine map of p, its matrix row by row.
__device__ __forceinline__ float2 mapped(const float (&m)[6], float2 p) {
    return make_float2(m[0] * p.x + m[1] * p.y + m[2], m[3] * p.x + m[4] * p.y + m[5]);
}

struct Sample {
    float3 colour;
    float alpha;
};

// How solid the layer is at object coordinates X, 0..1.
__device__ float alpha_at(const Textures& textures, const Layer& layer, float2 X) {
    if (layer.shape == EVERYWHERE) return 1.0f;
    if (layer.shape == CUT_OUT) return sprite_at(textures, layer, X).w;
    const float hardness = 2.0f * layer.radius / layer.softness;
    if (layer.shape == SKELETON) {
        return sigmoid(hardness * depth_in_struts(layer, X.x / layer.radius, X.y / layer.radius));
    }
    const float u = X.x / layer.radius * layer.aspect, v = X.y / (layer.radius * layer.aspect);
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

// tint @ (R, G, B), within 0..1.
__device__ __forceinline__ float3 tinted(const Layer& layer, float3 c) {
    const float(*t)[3] = layer.tint;
    return make_float3(clamp(t[0][0] * c.x + t[0][1] * c.y + t[0][2] * c.z, 0, 1),
                       clamp(t[1][0] * c.x + t[1][1] * c.y + t[1][2] * c.z, 0, 1),
                       clamp(t[2][0] * c.x + t[2][1] * c.y + t[2][2] * c.z, 0, 1));
}

// The layer at object coordinates X, seen at p in a frame, 0 or 1.
__device__ Sample sample(const Textures& textures, const Layer& layer, float2 X, float2 p,
                         int frame) {
    Sample result;
    result.alpha = alpha_at(textures, layer, X);
    result.colour = make_float3(0, 0, 0);
    if (result.alpha < SEEN_THROUGH) {
        result.alpha = 0.0f;
        return result;
    }
    if (layer.shade > 0.0f) {  // a shadow is translucent black
        result.alpha *= layer.shade;
        return result;
    }
    if (layer.surface == SPRITE) {
        const float4 c = sprite_at(textures, layer, X);
        result.colour = make_float3(c.x, c.y, c.z) * (1.0f / fmaxf(c.w, 1.0f / 255.0f));
    } else {
        const float2 t = mapped(layer.texture, X);
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
    result.colour = tinted(layer, result.colour);
    if (layer.gloss > 0.0f) {
        const float2 at = mapped(layer.reflection[frame], p);
        result.colour = result.colour * (1.0f - layer.gloss) +
                        photo_at(textures, layer.reflected, at) * layer.gloss;
    }
    return result;
}

// Whether an object may be seen at X at all: its outline reaches to `reach` at the most.
__device__ __forceinline__ bool near(const Layer& layer, float2 X) {
    if (layer.shape == EVERYWHERE) return true;
    const float stretch = fmaxf(layer.aspect, 1.0f / layer.aspect);
    const float reach = layer.radius * (layer.shape == CUT_OUT ? 1.5f : 2.5f * stretch) + 16.0f;
    return X.x * X.x + X.y * X.y < reach * reach;
}
