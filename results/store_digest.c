/* store_digest.c - one hash over all that must be equal when the same things are run again.
 *
 * Every row with an id of its own (run, sweep, reproduction, validation) is hashed together with
 * the rows that belong to it, in their order. Ids follow the order of storing, which may differ
 * between equal databases: they are left out, a reference to a run becomes the hash of that run,
 * and the hashes of one table are sorted before they enter the total.
 */
#include "results/store.h"

#include <stdlib.h>
#include <string.h>
#include "results/sha256.h"
#include "volatile_txt.h"

/* The rows of a table that have an id, and their hashes. */
struct hash_list {
    int64_t *ids; /* ascending */
    uint8_t (*hashes)[SHA256_BYTES];
    int64_t count, capacity;
};

static void hash_list_add(struct hash_list *list, int64_t id, const uint8_t hash[SHA256_BYTES]) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity > 0 ? 2 * list->capacity : 256;
        list->ids = memory_realloc(list->ids, (size_t)list->capacity * sizeof *list->ids);
        list->hashes = memory_realloc(list->hashes, (size_t)list->capacity * sizeof *list->hashes);
    }
    list->ids[list->count] = id;
    memcpy(list->hashes[list->count++], hash, SHA256_BYTES);
}

static void hash_list_free(struct hash_list *list) {
    free(list->ids);
    free(list->hashes);
}

static int compare_ids(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int compare_hashes(const void *a, const void *b) {
    return memcmp(a, b, SHA256_BYTES);
}

/* ---- which columns ---- */

enum column_use { COLUMN_SKIP, COLUMN_VALUE, COLUMN_RUN };
enum { MOST_COLUMNS = 96 };

struct digest {
    struct db *db;
    sqlite3_stmt *rows[RECORD_TABLE_COUNT]; /* of one owner (?1), or all of a table that has ids */
    enum column_use use[RECORD_TABLE_COUNT][MOST_COLUMNS];
    struct hash_list runs;
};

static bool is_volatile(const char *table, const char *column) {
    char line[128];
    snprintf(line, sizeof line, "\n%s.%s\n", table, column);
    return strstr(volatile_txt, line) != NULL;
}

static enum column_use column_use(const char *table, const char *column) {
    if (strcmp(column, "id") == 0 || is_volatile(table, column)) return COLUMN_SKIP;
    return strcmp(column, "run_id") == 0 ? COLUMN_RUN : COLUMN_VALUE;
}

/* ---- hashing: every item says its kind and size, so that no two contents look alike ---- */

static void add_bytes(struct sha256 *hash, char kind, const void *bytes, size_t size) {
    uint8_t head[9] = { (uint8_t)kind };
    for (int i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)size >> (8 * i));
    sha256_add(hash, head, sizeof head);
    if (size > 0) sha256_add(hash, bytes, size); /* SQLite gives NULL for an empty blob */
}

static void add_text(struct sha256 *hash, const char *text) {
    add_bytes(hash, 't', text, strlen(text));
}

static void add_word(struct sha256 *hash, char kind, uint64_t word) {
    uint8_t bytes[9] = { (uint8_t)kind };
    for (int i = 0; i < 8; i++)
        bytes[1 + i] = (uint8_t)(word >> (8 * i));
    sha256_add(hash, bytes, sizeof bytes);
}

static void add_value(struct sha256 *hash, sqlite3_stmt *row, int column) {
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        add_word(hash, 'i', (uint64_t)sqlite3_column_int64(row, column));
        break;
    case SQLITE_FLOAT: {
        double value = sqlite3_column_double(row, column);
        uint64_t word;
        memcpy(&word, &value, sizeof word);
        add_word(hash, 'r', word);
        break;
    }
    case SQLITE_TEXT:
        add_text(hash, (const char *)sqlite3_column_text(row, column));
        break;
    default:
        add_word(hash, 'n', 0);
    }
}

static void add_run(struct sha256 *hash, sqlite3_stmt *row, int column,
                    const struct hash_list *runs) {
    int64_t id = sqlite3_column_int64(row, column); /* 0, which is no id, for NULL */
    const int64_t *found = NULL;
    if (runs->count > 0)
        found = bsearch(&id, runs->ids, (size_t)runs->count, sizeof *runs->ids, compare_ids);
    if (found != NULL)
        add_bytes(hash, 'd', runs->hashes[found - runs->ids], SHA256_BYTES);
    else
        add_word(hash, 'n', 0);
}

static void add_row(struct sha256 *hash, const struct digest *digest, enum record_table_id id) {
    for (int c = 0; c < record_tables[id].column_count; c++) {
        enum column_use use = digest->use[id][c];
        if (use == COLUMN_VALUE) add_value(hash, digest->rows[id], c);
        if (use == COLUMN_RUN) add_run(hash, digest->rows[id], c, &digest->runs);
    }
}

/* ---- walking ---- */

static bool prepare(struct digest *digest, enum record_table_id id, struct error *err) {
    const struct record_table *table = &record_tables[id];
    ballast_check(table->column_count <= MOST_COLUMNS);
    char *sql = sqlite3_mprintf("SELECT ");
    for (int c = 0; c < table->column_count; c++) {
        digest->use[id][c] = column_use(table->name, table->columns[c].name);
        sql = sqlite3_mprintf("%z%s%s", sql, c > 0 ? ", " : "", table->columns[c].name);
    }
    sql = sqlite3_mprintf("%z FROM %s", sql, table->name);
    if (table->owner_column != NULL)
        sql = sqlite3_mprintf("%z WHERE %s = ?1", sql, table->owner_column);
    sql = sqlite3_mprintf("%z ORDER BY %s", sql, table->order);
    digest->rows[id] = db_prepare(digest->db, sql, err);
    sqlite3_free(sql);
    return digest->rows[id] != NULL;
}

static bool add_owned_rows(struct sha256 *hash, struct digest *digest, enum record_table_id owner,
                           int64_t id, struct error *err) {
    for (int t = 0; t < RECORD_TABLE_COUNT; t++) {
        const struct record_table *table = &record_tables[t];
        if (table->owner_column == NULL || table->owner != owner) continue;
        add_text(hash, table->name);
        sqlite3_bind_int64(digest->rows[t], 1, id);
        enum db_step step;
        while ((step = db_step(digest->db, digest->rows[t], err)) == DB_ROW)
            add_row(hash, digest, t);
        sqlite3_reset(digest->rows[t]);
        if (step == DB_ERROR) return false;
    }
    return true;
}

static bool hash_table(struct digest *digest, enum record_table_id id, struct hash_list *list,
                       struct error *err) {
    enum db_step step;
    while ((step = db_step(digest->db, digest->rows[id], err)) == DB_ROW) {
        int64_t row_id = sqlite3_column_int64(digest->rows[id], 0);
        struct sha256 hash;
        sha256_begin(&hash);
        add_row(&hash, digest, id);
        if (!add_owned_rows(&hash, digest, id, row_id, err)) return false;
        uint8_t result[SHA256_BYTES];
        sha256_end(&hash, result);
        hash_list_add(list, row_id, result);
    }
    return step == DB_DONE;
}

static void add_sorted(struct sha256 *total, const struct hash_list *list) {
    struct hash_list sorted = { 0 };
    for (int64_t i = 0; i < list->count; i++)
        hash_list_add(&sorted, list->ids[i], list->hashes[i]);
    if (sorted.count > 0) qsort(sorted.hashes, (size_t)sorted.count, SHA256_BYTES, compare_hashes);
    for (int64_t i = 0; i < sorted.count; i++)
        add_bytes(total, 'd', sorted.hashes[i], SHA256_BYTES);
    hash_list_free(&sorted);
}

/* Runs come first among the tables: the others refer to them. */
static bool hash_all(struct digest *digest, struct sha256 *total, struct error *err) {
    for (int t = 0; t < RECORD_TABLE_COUNT; t++) {
        if (record_tables[t].owner_column != NULL) continue;
        struct hash_list rows = { 0 };
        struct hash_list *list = t == RECORD_RUN ? &digest->runs : &rows;
        bool done = hash_table(digest, t, list, err);
        add_text(total, record_tables[t].name);
        add_sorted(total, list);
        hash_list_free(&rows);
        if (!done) return false;
    }
    return true;
}

bool store_digest(struct store *store, char text[65], struct error *err) {
    struct digest digest = { .db = store_db(store) };
    bool done = true;
    for (int t = 0; t < RECORD_TABLE_COUNT && done; t++)
        done = prepare(&digest, t, err);
    struct sha256 total;
    sha256_begin(&total);
    done = done && hash_all(&digest, &total, err);
    for (int t = 0; t < RECORD_TABLE_COUNT; t++)
        sqlite3_finalize(digest.rows[t]);
    hash_list_free(&digest.runs);
    uint8_t result[SHA256_BYTES];
    sha256_end(&total, result);
    for (int i = 0; i < SHA256_BYTES; i++)
        sprintf(text + 2 * i, "%02x", result[i]);
    return done;
}
