/* store_export.c - any table or view as CSV (RFC 4180), JSON (an array of objects) or Markdown. */
#include "results/store.h"

#include <string.h>
#include "results/json_text.h"
#include "sim/base/field.h"

/* ---- one row in each format; index 0 is the first row, -1 a table without rows ---- */

static void csv_text(FILE *out, const char *text) {
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    if (quote) fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    if (quote) fputc('"', out);
}

static void csv_row(FILE *out, sqlite3_stmt *row, int64_t index) {
    int count = sqlite3_column_count(row);
    for (int c = 0; c < count && index <= 0; c++) {
        csv_text(out, sqlite3_column_name(row, c));
        fputc(c + 1 < count ? ',' : '\n', out);
    }
    for (int c = 0; c < count && index >= 0; c++) {
        int type = sqlite3_column_type(row, c);
        if (type == SQLITE_FLOAT)
            json_text_double(out, sqlite3_column_double(row, c));
        else if (type != SQLITE_NULL)
            csv_text(out, (const char *)sqlite3_column_text(row, c));
        fputc(c + 1 < count ? ',' : '\n', out);
    }
}

static void json_row(FILE *out, sqlite3_stmt *row, int64_t index) {
    fputs(index <= 0 ? "[" : ",", out);
    if (index < 0) return;
    int count = sqlite3_column_count(row);
    for (int c = 0; c < count; c++) {
        fputs(c == 0 ? "\n{" : ", ", out);
        json_text_string(out, sqlite3_column_name(row, c));
        fputs(": ", out);
        switch (sqlite3_column_type(row, c)) {
        case SQLITE_INTEGER:
            fprintf(out, "%lld", sqlite3_column_int64(row, c));
            break;
        case SQLITE_FLOAT:
            json_text_double(out, sqlite3_column_double(row, c));
            break;
        default: /* NULL gives a NULL pointer */
            json_text_string(out, (const char *)sqlite3_column_text(row, c));
        }
    }
    fputc('}', out);
}

static void markdown_text(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '|') fputc('\\', out);
        fputc(*text == '\n' || *text == '\r' ? ' ' : *text, out);
    }
}

static void markdown_row(FILE *out, sqlite3_stmt *row, int64_t index) {
    int count = sqlite3_column_count(row);
    if (index <= 0) {
        for (int c = 0; c < count; c++)
            fprintf(out, "| %s ", sqlite3_column_name(row, c));
        fputs("|\n", out);
        for (int c = 0; c < count; c++) {
            int type = index < 0 ? SQLITE_NULL : sqlite3_column_type(row, c);
            fputs(type == SQLITE_INTEGER || type == SQLITE_FLOAT ? "|---:" : "|---", out);
        }
        fputs("|\n", out);
    }
    for (int c = 0; c < count && index >= 0; c++) {
        int type = sqlite3_column_type(row, c);
        fputs("| ", out);
        if (type == SQLITE_FLOAT)
            fprintf(out, "%.6g", sqlite3_column_double(row, c));
        else if (type != SQLITE_NULL)
            markdown_text(out, (const char *)sqlite3_column_text(row, c));
        fputc(' ', out);
    }
    if (index >= 0) fputs("|\n", out);
}

static const struct {
    const char *name;
    void (*row)(FILE *out, sqlite3_stmt *row, int64_t index);
    const char *end;
} formats[STORE_FORMAT_COUNT] = {
    [STORE_CSV] = { "csv", csv_row, "" },
    [STORE_JSON] = { "json", json_row, "\n]\n" },
    [STORE_MARKDOWN] = { "markdown", markdown_row, "" },
};

const char *store_format_name(enum store_format format) {
    return formats[format].name;
}

/* ---- the table asked for ---- */

/* Names of all tables and views, NULL at the end. */
static const char **table_names(struct db *db, struct arena *arena, struct error *err) {
    enum { MOST = 256 };
    sqlite3_stmt *statement = db_prepare(db,
                                         "SELECT name FROM sqlite_schema WHERE type IN ('table',"
                                         " 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name",
                                         err);
    if (statement == NULL) return NULL;
    const char **names = arena_array(arena, const char *, MOST + 1);
    enum db_step step = DB_DONE;
    for (int i = 0; i < MOST && (step = db_step(db, statement, err)) == DB_ROW; i++)
        names[i] = arena_text(arena, (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return step != DB_ERROR ? names : NULL;
}

static bool check_name(struct db *db, const char *table, struct error *err) {
    struct arena *arena = arena_create();
    const char **names = table_names(db, arena, err);
    bool known = false;
    for (const char **name = names; names != NULL && *name != NULL; name++)
        known = known || strcmp(*name, table) == 0;
    if (names != NULL && !known) {
        const char *nearest = nearest_in_list(table, names);
        error_set(err, "there is no table or view '%s'", table);
        if (nearest != NULL) {
            error_hint(err, "did you mean '%s'?", nearest);
        } else {
            char *all = arena_text(arena, names[0]);
            for (const char **name = names + 1; *name != NULL; name++)
                all = arena_format(arena, "%s, %s", all, *name);
            error_hint(err, "there are %s", all);
        }
    }
    arena_destroy(arena);
    return known;
}

static bool has_column(struct db *db, const char *table, const char *column) {
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT %s FROM %s", column, table);
    bool has = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL) == SQLITE_OK;
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    return has;
}

/* The query for a known table or view; NULL: failed. The caller frees it with sqlite3_free. */
static char *export_sql(struct db *db, const char *table, int64_t run_id, struct error *err) {
    char *sql = sqlite3_mprintf("SELECT * FROM %s", table);
    if (run_id >= 0) {
        bool of_runs = strcmp(table, "run") == 0 || strcmp(table, "run_summary") == 0;
        if (!of_runs && !has_column(db, table, "run_id")) {
            error_set(err, "the rows of '%s' do not belong to single runs", table);
            sqlite3_free(sql);
            return NULL;
        }
        sql = sqlite3_mprintf("%z WHERE %s = ?1", sql, of_runs ? "id" : "run_id");
    }
    for (int t = 0; t < RECORD_TABLE_COUNT; t++) { /* views say their order themselves */
        const struct record_table *known = &record_tables[t];
        if (strcmp(known->name, table) != 0) continue;
        const char *owner = known->owner_column;
        sql = sqlite3_mprintf("%z ORDER BY %s%s%s", sql, owner != NULL ? owner : "",
                              owner != NULL ? ", " : "", known->order);
    }
    return sql;
}

bool store_export(struct store *store, const char *table, int64_t run_id, enum store_format format,
                  FILE *out, struct error *err) {
    struct db *db = store_db(store);
    if (!check_name(db, table, err)) return false;
    char *sql = export_sql(db, table, run_id, err);
    if (sql == NULL) return false;
    sqlite3_stmt *row = db_prepare(db, sql, err);
    sqlite3_free(sql);
    if (row == NULL) return false;
    if (run_id >= 0) sqlite3_bind_int64(row, 1, run_id);

    int64_t count = 0;
    enum db_step step;
    while ((step = db_step(db, row, err)) == DB_ROW && !ferror(out))
        formats[format].row(out, row, count++);
    if (count == 0 && step == DB_DONE) formats[format].row(out, row, -1);
    fputs(formats[format].end, out);
    sqlite3_finalize(row);
    if (step == DB_ERROR) return false;
    if (fflush(out) != 0 || ferror(out))
        return error_system(err, "cannot write the rows of '%s'", table);
    return true;
}
