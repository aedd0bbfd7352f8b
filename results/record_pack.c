/* record_pack.c - each column in turn: numbers as they lie in memory, texts with their length. */
#include "results/record_pack.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/error.h"

void record_bytes_free(struct record_bytes *bytes) {
    free(bytes->bytes);
    *bytes = (struct record_bytes){ 0 };
}

static void add(struct record_bytes *bytes, const void *what, size_t size) {
    while (bytes->size + size > bytes->capacity) {
        bytes->capacity = bytes->capacity > 0 ? 2 * bytes->capacity : 4096;
        bytes->bytes = memory_realloc(bytes->bytes, bytes->capacity);
    }
    if (size > 0) memcpy(bytes->bytes + bytes->size, what, size);
    bytes->size += size;
}

static void take(const char **at, const char *end, void *what, size_t size) {
    ballast_check((size_t)(end - *at) >= size);
    if (size > 0) memcpy(what, *at, size);
    *at += size;
}

void record_pack_number(struct record_bytes *bytes, int64_t number) {
    add(bytes, &number, sizeof number);
}

int64_t record_unpack_number(const char **at, const char *end) {
    int64_t number;
    take(at, end, &number, sizeof number);
    return number;
}

void record_pack_text(struct record_bytes *bytes, const char *text) {
    const int64_t length = text != NULL ? (int64_t)strlen(text) : -1;
    record_pack_number(bytes, length);
    if (length > 0) add(bytes, text, (size_t)length);
}

const char *record_unpack_text(const char **at, const char *end, struct arena *arena) {
    const int64_t length = record_unpack_number(at, end);
    if (length < 0) return NULL;
    char *text = arena_alloc(arena, (size_t)length + 1);
    take(at, end, text, (size_t)length);
    text[length] = '\0';
    return text;
}

static size_t number_size(enum record_type type) {
    return type == RECORD_BOOL   ? sizeof(bool)
           : type == RECORD_REAL ? sizeof(double)
                                 : sizeof(int64_t);
}

void record_pack(struct record_bytes *bytes, enum record_table_id id, const void *records,
                 int64_t count) {
    const struct record_table *table = &record_tables[id];
    record_pack_number(bytes, count);
    for (int64_t i = 0; i < count; i++)
        for (int c = 0; c < table->column_count; c++) {
            const struct record_column *column = &table->columns[c];
            const char *place =
                (const char *)records + (size_t)i * table->record_size + column->offset;
            if (column->type == RECORD_TEXT)
                record_pack_text(bytes, *(const char *const *)(const void *)place);
            else
                add(bytes, place, number_size(column->type));
        }
}

void *record_unpack(const char **at, const char *end, enum record_table_id id, struct arena *arena,
                    int64_t *count) {
    const struct record_table *table = &record_tables[id];
    *count = record_unpack_number(at, end);
    ballast_check(*count >= 0 && *count <= end - *at);
    char *records = arena_alloc(arena, ((size_t)*count + 1) * table->record_size);
    for (int64_t i = 0; i < *count; i++)
        for (int c = 0; c < table->column_count; c++) {
            const struct record_column *column = &table->columns[c];
            char *place = records + (size_t)i * table->record_size + column->offset;
            if (column->type == RECORD_TEXT)
                *(const char **)(void *)place = record_unpack_text(at, end, arena);
            else
                take(at, end, place, number_size(column->type));
        }
    return records;
}
