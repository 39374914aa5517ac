// Arithmetic on colours and numbers that the kernels share.
//
// As scene.cuh, it includes nothing of ours itself.

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
