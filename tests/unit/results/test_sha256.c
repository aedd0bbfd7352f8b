/* test_sha256.c - the examples of FIPS 180-4 (NIST CSRC "SHA256.pdf") and pieces of every size. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include "results/sha256.h"

static void hash_text(const char *text, size_t size, size_t piece, char hex[65]) {
    struct sha256 hash;
    sha256_begin(&hash);
    for (size_t at = 0; at < size; at += piece)
        sha256_add(&hash, text + at, size - at < piece ? size - at : piece);
    uint8_t result[SHA256_BYTES];
    sha256_end(&hash, result);
    for (int i = 0; i < SHA256_BYTES; i++)
        sprintf(hex + 2 * i, "%02x", result[i]);
}

static void test_known_hashes(void **state) {
    (void)state;
    static const struct {
        const char *text, *hash;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char hex[65];
        hash_text(cases[i].text, strlen(cases[i].text), 1000, hex);
        if (strcmp(hex, cases[i].hash) != 0) fail_msg("'%s': got %s", cases[i].text, hex);
    }
}

static void test_a_million_letters_in_pieces(void **state) {
    (void)state;
    static char text[1000000];
    memset(text, 'a', sizeof text);
    static const size_t pieces[] = { 1, 7, 63, 64, 65, 128, 1000, 1000000 };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char hex[65];
        hash_text(text, sizeof text, pieces[i], hex);
        if (strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") != 0)
            fail_msg("pieces of %zu: got %s", pieces[i], hex);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_hashes),
        cmocka_unit_test(test_a_million_letters_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
