/* test_batch_tools.h - what the tests of the batching policies share: data sets, plans by JSON
 * text, and SHA-256 (FIPS 180-4) of a plan's groups. */
#ifndef BALLAST_TESTS_TEST_BATCH_TOOLS_H
#define BALLAST_TESTS_TEST_BATCH_TOOLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "sim/policy/batching/batching.h"

/* ---- data sets ---- */

/* The four real parts of OmniBal's data in the order in which its list names them. */
static inline struct dataset *four_parts_load(void) {
    static const char *const order[] = { "ai2d", "docvqa", "chartqa", "synthdog" };
    struct error err = { 0 };
    struct dataset *dataset =
        dataset_load(BALLAST_SOURCE_DIR "/scenarios", "omnibal-real", NULL, &err);
    if (dataset == NULL) fail_msg("omnibal-real: %s", err.text);
    struct sample *ordered = malloc(sizeof *ordered * (size_t)dataset->sample_count);
    int64_t count = 0;
    for (size_t part = 0; part < sizeof order / sizeof order[0]; part++)
        for (int64_t i = 0; i < dataset->sample_count; i++) {
            const char *name = dataset->parts[dataset->samples[i].part].name;
            if (strncmp(name, order[part], strlen(order[part])) == 0)
                ordered[count++] = dataset->samples[i];
        }
    assert_int_equal(count, dataset->sample_count);
    assert_int_equal(count, 70706);
    memcpy(dataset->samples, ordered, sizeof *ordered * (size_t)count);
    free(ordered);
    return dataset;
}

/* Pairs of tiles and tokens. */
struct small_dataset {
    struct dataset dataset;
    struct sample samples[16];
};

static inline void small_dataset_make(struct small_dataset *small, const uint32_t (*pairs)[2],
                                      int64_t count) {
    *small = (struct small_dataset){ .dataset = { .name = "small", .sample_count = count } };
    small->dataset.samples = small->samples;
    for (int64_t i = 0; i < count; i++)
        small->samples[i] = (struct sample){ .vision_tiles = (uint16_t)pairs[i][0],
                                             .language_tokens = pairs[i][1] };
}

/* ---- plans ---- */

static inline bool plan_try(const char *policy_name, const char *json_text,
                            const struct batch_request *request, struct batch_plan *plan,
                            struct error *err) {
    const struct batching_policy *policy = batching_policy_find(policy_name);
    assert_non_null(policy);
    struct json *json = json_parse("parameters", json_text, strlen(json_text), err);
    if (json == NULL) fail_msg("%s: %s", policy_name, err->text);
    struct arena *arena = arena_create();
    void *values = arena_alloc(arena, policy->parameters_size);
    if (!field_table_read(policy->parameters, json, json_root(json), values, arena, err))
        fail_msg("%s: %s", policy_name, err->text);
    bool ok = policy->plan(request, values, plan, err);
    arena_destroy(arena);
    json_destroy(json);
    return ok;
}

static inline void plan_make(const char *policy, const char *json_text,
                             const struct batch_request *request, struct batch_plan *plan) {
    struct error err = { 0 };
    if (!plan_try(policy, json_text, request, plan, &err))
        fail_msg("%s %s: %s", policy, json_text, err.text);
}

/* The two identities that batching.h promises, no group is empty, no group is dealt twice. */
static inline void plan_check(const char *name, const struct batch_plan *plan) {
    int64_t accounted = plan->samples_packed + plan->oversize_skipped + plan->lost_with_last_group +
                        plan->leftover_dropped;
    if (accounted != plan->samples_in)
        fail_msg("%s: %lld of %lld samples accounted for", name, (long long)accounted,
                 (long long)plan->samples_in);
    char *dealt_once = calloc((size_t)plan->group_count, 1);
    int64_t dealt = 0;
    for (int64_t i = 0; i < plan->rank_count * plan->per_rank; i++) {
        uint32_t group = plan->order[i];
        if (group >= plan->group_count || dealt_once[group]++ != 0)
            fail_msg("%s: group %u is dealt twice or does not exist", name, group);
        dealt += plan->starts[group + 1] - plan->starts[group];
    }
    free(dealt_once);
    if (dealt != plan->samples_packed + plan->repeated_by_sampler - plan->dropped_by_sampler)
        fail_msg("%s: ranks get %lld samples, not %lld + %lld - %lld", name, (long long)dealt,
                 (long long)plan->samples_packed, (long long)plan->repeated_by_sampler,
                 (long long)plan->dropped_by_sampler);
    for (int64_t g = 0; g < plan->group_count; g++)
        if (plan->starts[g] >= plan->starts[g + 1])
            fail_msg("%s: group %lld is empty", name, (long long)g);
}

static inline char *plan_text(const struct batch_plan *plan, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    assert_non_null(out);
    assert_true(batch_plan_write_groups(plan, out));
    assert_int_equal(fclose(out), 0);
    return text;
}

/* ---- SHA-256 ---- */

static inline uint32_t sha256_rotate(uint32_t x, int by) {
    return x >> by | x << (32 - by);
}

__extension__ typedef unsigned __int128 uint128;

/* First 32 bits of the fractional part of a prime's square root (power 2) or cube root (3): exact,
 * by bisection for the root times 2^32. No table to mistype. */
static inline uint32_t sha256_root_bits(uint32_t prime, int power) {
    uint128 low = 0, high = (uint128)20 << 32, limit = (uint128)prime << 32 * power;
    while (high - low > 1) {
        uint128 middle = (low + high) / 2;
        if ((power == 2 ? middle * middle : middle * middle * middle) <= limit)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

struct sha256 {
    uint32_t hash[8], constants[64];
};

static inline void sha256_begin(struct sha256 *sha) {
    int found = 0;
    for (uint32_t n = 2; found < 64; n++) {
        bool prime = true;
        for (uint32_t d = 2; d * d <= n; d++)
            prime = prime && n % d != 0;
        if (!prime) continue;
        if (found < 8) sha->hash[found] = sha256_root_bits(n, 2);
        sha->constants[found++] = sha256_root_bits(n, 3);
    }
}

static inline void sha256_block(struct sha256 *sha, const unsigned char *block) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (sha256_rotate(a, 7) ^ sha256_rotate(a, 18) ^ a >> 3) +
               (sha256_rotate(b, 17) ^ sha256_rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, sha->hash, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t a = s[0], e = s[4];
        uint32_t t1 = s[7] + (sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + sha->constants[i] + w[i];
        uint32_t t2 = (sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        sha->hash[i] += s[i];
}

static inline void sha256_hex(const char *data, size_t size, char hex[65]) {
    struct sha256 sha;
    sha256_begin(&sha);
    size_t whole = size / 64 * 64;
    for (size_t i = 0; i < whole; i += 64)
        sha256_block(&sha, (const unsigned char *)data + i);
    unsigned char tail[128] = { 0 };
    size_t left = size - whole, padded = left < 56 ? 64 : 128;
    memcpy(tail, data + whole, left);
    tail[left] = 0x80;
    for (size_t i = 0; i < 8; i++)
        tail[padded - 1 - i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
    for (size_t i = 0; i < padded; i += 64)
        sha256_block(&sha, tail + i);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", sha.hash[i]);
}

static inline void plan_sha256(const struct batch_plan *plan, char hex[65]) {
    size_t size;
    char *text = plan_text(plan, &size);
    sha256_hex(text, size, hex);
    free(text);
}

/* Equal to a figure that was printed with so many decimals. */
static inline void expect_printed(const char *row, const char *what, double got, double want,
                                  int decimals) {
    char got_text[32], want_text[32];
    snprintf(got_text, sizeof got_text, "%.*f", decimals, got);
    snprintf(want_text, sizeof want_text, "%.*f", decimals, want);
    if (strcmp(got_text, want_text) != 0)
        fail_msg("%s: %s is %s, want %s", row, what, got_text, want_text);
}

#endif
