/* configuration_table.c - open addressing; the keys are hashes already. */
#include "sim/study/sweep/configuration_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

static uint64_t first_place(const char *key) {
    enum { HASH_DIGITS = 15 };
    char digits[HASH_DIGITS + 1];
    snprintf(digits, sizeof digits, "%.*s", HASH_DIGITS, key);
    return strtoull(digits, NULL, 16);
}

int64_t *configuration_table_find(struct configuration_table *table, const char *key) {
    if (table->capacity == 0) return NULL;
    uint64_t at = first_place(key);
    for (;; at++) {
        uint64_t i = at % (uint64_t)table->capacity;
        if (table->keys[i][0] == '\0') return NULL;
        if (strcmp(table->keys[i], key) == 0) return &table->values[i];
    }
}

static void grow(struct configuration_table *table) {
    struct configuration_table larger = { .capacity =
                                              table->capacity > 0 ? 2 * table->capacity : 1024 };
    larger.keys = calloc((size_t)larger.capacity, sizeof *larger.keys);
    larger.values = memory_alloc(sizeof *larger.values * (size_t)larger.capacity);
    ballast_check(larger.keys != NULL);
    for (int64_t i = 0; i < table->capacity; i++)
        if (table->keys[i][0] != '\0')
            configuration_table_insert(&larger, table->keys[i], table->values[i]);
    free(table->keys);
    free(table->values);
    *table = larger;
}

void configuration_table_insert(struct configuration_table *table, const char *key, int64_t value) {
    if (2 * table->count >= table->capacity) grow(table);
    uint64_t at = first_place(key);
    while (table->keys[at % (uint64_t)table->capacity][0] != '\0')
        at++;
    strcpy(table->keys[at % (uint64_t)table->capacity], key);
    table->values[at % (uint64_t)table->capacity] = value;
    table->count++;
}

void configuration_table_free(struct configuration_table *table) {
    free(table->keys);
    free(table->values);
    *table = (struct configuration_table){ 0 };
}
