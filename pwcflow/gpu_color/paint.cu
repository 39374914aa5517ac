// The colours of a flow: what pwcflow/color/painting.py does, in one pass.
//
// Whether a vector is longer than the scale must come out as it does there, or its colour is another:
// so the length is rounded after each operation, in the same order, and never contracted. Everything
// else is continuous, but where the rim's ends meet, which the sign of v decides.

constexpr int THREADS = 256;
constexpr float UNKNOWN_ABOVE = 1e9f;  // as in pwcflow/flow_file
constexpr float UNITS_PER_PX = 1073741824.0f;  // 2^30, as in pwcflow/color/vectors.py
constexpr float WHITE = 255.0f;
constexpr float TURN = 6.28318531f;

// flow (pixels, 2) -> image (pixels, 3), RGB. `lacking` (last_place + 1, 3) is the gray `still` minus
// the colours of the rim. `scale` is counted in 1 / UNITS_PER_PX of a pixel, `noise_floor` in scales,
// and beyond the scale `darkened` is left of a colour, or on black of what it lacks of white.
// A thread paints a pixel, a block THREADS neighbouring ones.
extern "C" __global__ void paint_flow(const float2* __restrict__ flow,
                                      const float* __restrict__ lacking,
                                      unsigned char* __restrict__ image, float scale,
                                      float noise_floor, float exponent, float still,
                                      float darkened, int last_place, int unknown_red,
                                      int unknown_green, int unknown_blue, long long pixels) {
    const long long pixel = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    if (pixel >= pixels) return;
    const float2 vector = flow[pixel];
    unsigned char* const color = image + 3 * pixel;
    const bool known = fabsf(vector.x) <= UNKNOWN_ABOVE && fabsf(vector.y) <= UNKNOWN_ABOVE;
    if (!known) {  // NaN, too
        color[0] = static_cast<unsigned char>(unknown_red);
        color[1] = static_cast<unsigned char>(unknown_green);
        color[2] = static_cast<unsigned char>(unknown_blue);
        return;
    }
    const float u = vector.x * UNITS_PER_PX, v = vector.y * UNITS_PER_PX;
    const float length = __fsqrt_rn(__fadd_rn(__fmul_rn(u, u), __fmul_rn(v, v)));
    float radius = __fdiv_rn(length, scale);
    const bool beyond = radius > 1.0f;
    radius = fminf(radius, 1.0f);
    if (noise_floor > 0.0f) {
        radius = fmaxf(radius - noise_floor, 0.0f) / (1.0f - noise_floor);
    }
    if (exponent != 1.0f) radius = powf(radius, exponent);
    float angle = atan2f(v, u);
    if (__float_as_int(v) < 0) angle += TURN;  // -0 is the rim's end, +0 its beginning
    const int place = min(static_cast<int>(angle / TURN * last_place + 0.5f), last_place);
    const float towards = WHITE - still;
#pragma unroll
    for (int channel = 0; channel < 3; ++channel) {
        float level = still - lacking[3 * place + channel] * radius;
        if (beyond) level = (level - towards) * darkened + towards;
        color[channel] = static_cast<unsigned char>(fmaxf(level, 0.0f));
    }
}
