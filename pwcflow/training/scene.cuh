// The layers of a scene and its optics, as scene.py packs them.
//
// pwcflow/cuda_kernels.py puts this text where a kernel's file includes it; it includes nothing of
// ours itself.

constexpr int WAVES = 4;
constexpr int HARMONICS = 6;
constexpr int STRUTS = 8;

enum Shape { EVERYWHERE, BLOB, SUPERELLIPSE, RING, BARS, SKELETON, CUT_OUT };
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
    float struts[STRUTS][5];
    int surface, photo, sprite;
    float texture[6];
    float colours[2][3];
    float wavelength;
    unsigned seed;
    float tint[3][3];
    float gloss;
    int reflected;
    float reflection[2][6];
    float shade;
};
static_assert(sizeof(Layer) == 536, "LAYER in scene.py has 134 words");

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
