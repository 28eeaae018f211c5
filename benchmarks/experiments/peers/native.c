/* The kernel product and nearest neighbours by hand: vectors by the compiler, threads by OpenMP.
   With -ffast-math gcc takes exp from glibc's vector library. */
#include <math.h>
#include <stdlib.h>

/* out = exp(-|x_i - x_j|^2 / 2) @ v; x holds three features, one after another. */
void kernel_product(long n, const double *x, const double *v, double *out) {
    const double *a = x, *b = x + n, *c = x + 2 * n;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double p = a[i], q = b[i], r = c[i], sum = 0;
#pragma omp simd reduction(+ : sum)
        for (long j = 0; j < n; j++) {
            double s = a[j] - p, t = b[j] - q, u = c[j] - r;
            sum += exp(-0.5 * (s * s + t * t + u * u)) * v[j];
        }
        out[i] = sum;
    }
}

#define BLOCK 1024
#define QUERIES 8

static void insert(float *best, long *places, long k, float distance, long place) {
    long slot = k - 1;
    for (; slot > 0 && best[slot - 1] > distance; slot--) {
        best[slot] = best[slot - 1];
        places[slot] = places[slot - 1];
    }
    best[slot] = distance;
    places[slot] = place;
}

/* distances of one query to a block of points; features of the points one after another */
static void distances(long n, long d, int absolute, const float *query, const float *points,
                      long first, long count, float *out) {
    for (long j = 0; j < count; j++) out[j] = 0;
    for (long f = 0; f < d; f++) {
        const float *column = points + f * n + first;
        float q = query[f];
        if (absolute) {
#pragma omp simd
            for (long j = 0; j < count; j++) out[j] += fabsf(column[j] - q);
        } else {
#pragma omp simd
            for (long j = 0; j < count; j++) out[j] += (column[j] - q) * (column[j] - q);
        }
    }
}

/* the k nearest of n points (d, n) for m queries (m, d); places (m, k), nearest first */
void nearest(long m, long n, long d, long k, int absolute, const float *queries,
             const float *points, long *places) {
#pragma omp parallel
    {
        float *best = malloc(sizeof(float) * QUERIES * k);
        float out[BLOCK];
#pragma omp for schedule(static)
        for (long start = 0; start < m; start += QUERIES) {
            long count = m - start < QUERIES ? m - start : QUERIES;
            for (long i = 0; i < count * k; i++) best[i] = HUGE_VALF;
            for (long first = 0; first < n; first += BLOCK) {
                long size = n - first < BLOCK ? n - first : BLOCK;
                for (long q = 0; q < count; q++) {
                    float *mine = best + q * k;
                    distances(n, d, absolute, queries + (start + q) * d, points, first, size, out);
                    for (long j = 0; j < size; j++)
                        if (out[j] < mine[k - 1])
                            insert(mine, places + (start + q) * k, k, out[j], first + j);
                }
            }
        }
        free(best);
    }
}
