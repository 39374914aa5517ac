// Matrix products on tensor cores, which GPUs have from compute capability 8.0 on.

// Four (two) 8 x 8 matrices of 16-bit values, or 8 x 4 of 32 bits, whose rows the threads point at.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_matrices(unsigned (&to)[2], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
}

// Two (one) 8 x 8 matrices of 16-bit values with rows and columns exchanged, likewise.
__device__ __forceinline__ void load_transposed(unsigned (&to)[2], const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_transposed(unsigned& to, const void* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(to)
                 : "r"(address)
                 : "memory");
}

// sum (16 x 8) += a (16 x 16) b (16 x 8), of halves.
template <typename T>
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1);
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&sum)[4], const unsigned (&a)[4],
                                                     unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&sum)[4],
                                                            const unsigned (&a)[4], unsigned b0,
                                                            unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// sum (16 x 8) += a (16 x 8) b (8 x 8), of halves.
template <typename T>
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[2], unsigned b);
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&sum)[4], const unsigned (&a)[2],
                                                     unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&sum)[4],
                                                            const unsigned (&a)[2], unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}

// sum (16 x 8) += a (16 x 8) b (8 x 8) in TF32, which looks at the upper 19 bits of a float.
template <>
__device__ __forceinline__ void multiply_add<float>(float (&sum)[4], const unsigned (&a)[4],
                                                    unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A float in two parts, as TF32 sees them: its upper 19 bits, and the rest, of whose 13 bits it sees 11.
// Without the product of the two rests a product of two floats is too small by less than 2^-19 of it,
// 2^-22 on average. To round, not cut off, would take a third instruction or a slow one. The rest of an
// infinite number is NaN.
__device__ __forceinline__ void split_float(unsigned bits, unsigned& main, unsigned& rest) {
    main = bits;
    rest = __float_as_uint(__uint_as_float(bits) - __uint_as_float(bits & 0xffffe000u));
}
