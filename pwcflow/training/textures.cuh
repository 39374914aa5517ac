// The textures that scenes take from photographs and cut-outs, and how they are sampled.
//
// Needs scene.cuh and hash.cuh before it; as the former, it includes nothing of ours itself.

struct Textures {
    const uchar4* photos;
    int photo_height, photo_width;
    const uchar4* sprites;  // square, colours already multiplied by alpha
    int sprite_size;
};

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
