/* record_pack.h - rows as bytes, for another process of the same program.
 *
 *     struct record_bytes bytes = { 0 };
 *     record_pack(&bytes, RECORD_SWEEP_ROW, rows, row_count);
 *     ... to the other process ...
 *     const char *at = bytes.bytes, *end = at + bytes.size;
 *     rows = record_unpack(&at, end, RECORD_SWEEP_ROW, arena, &row_count);
 *     record_bytes_free(&bytes);
 */
#ifndef BALLAST_RESULTS_RECORD_PACK_H
#define BALLAST_RESULTS_RECORD_PACK_H

#include "results/record.h"
#include "sim/base/arena.h"

struct record_bytes {
    char *bytes;
    size_t size, capacity;
};

void record_bytes_free(struct record_bytes *bytes);
void record_pack_number(struct record_bytes *bytes, int64_t number);
void record_pack_text(struct record_bytes *bytes, const char *text); /* may be NULL */
void record_pack(struct record_bytes *bytes, enum record_table_id table, const void *records,
                 int64_t count);

/* Each moves *at behind what it has read. Bytes that end early are a bug: nobody but this program
 * writes them. */
int64_t record_unpack_number(const char **at, const char *end);
const char *record_unpack_text(const char **at, const char *end, struct arena *arena);
void *record_unpack(const char **at, const char *end, enum record_table_id table,
                    struct arena *arena, int64_t *count);

#endif
