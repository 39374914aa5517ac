// Random numbers that depend on nothing but a place and a seed: every thread finds the same ones.
//
// As scene.cuh, it includes nothing of ours itself.

// A hash after PCG (O'Neill 2014, permuted congruential generator): output 0..2^32 - 1.
__device__ __forceinline__ unsigned hashed(unsigned value) {
    const unsigned state = value * 747796405u + 2891336453u;
    const unsigned word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    return (word >> 22u) ^ word;
}
__device__ __forceinline__ float lattice(int x, int y, unsigned seed) {
    return hashed(x + hashed(y + hashed(seed))) * (1.0f / 4294967296.0f);
}
