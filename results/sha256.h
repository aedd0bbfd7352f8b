/* sha256.h - the SHA-256 hash (FIPS 180-4), for the digest of a database.
 *
 *     struct sha256 h;
 *     sha256_begin(&h);
 *     sha256_add(&h, text, size);
 *     uint8_t hash[SHA256_BYTES];
 *     sha256_end(&h, hash);
 */
#ifndef BALLAST_RESULTS_SHA256_H
#define BALLAST_RESULTS_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

struct sha256 {
    uint32_t state[8];
    uint64_t byte_count;
    uint8_t block[64]; /* what has not filled a block yet: byte_count % 64 bytes */
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t size);
void sha256_end(struct sha256 *hash, uint8_t result[SHA256_BYTES]);

#endif
