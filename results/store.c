/* store.c - opening, and rows in and out through the tables of record.c: no table has code of its
 * own.
 */
#include "results/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "schema_sql.h"
#include "upgrade_10_sql.h"
#include "upgrade_11_sql.h"
#include "upgrade_12_sql.h"
#include "upgrade_13_sql.h"
#include "upgrade_14_sql.h"
#include "upgrade_15_sql.h"
#include "upgrade_16_sql.h"
#include "upgrade_17_sql.h"
#include "upgrade_2_sql.h"
#include "upgrade_3_sql.h"
#include "upgrade_4_sql.h"
#include "upgrade_5_sql.h"
#include "upgrade_6_sql.h"
#include "upgrade_7_sql.h"
#include "upgrade_8_sql.h"
#include "upgrade_9_sql.h"
#include "sim/base/field.h"

struct store {
    struct db *db;
    sqlite3_stmt *insert[RECORD_TABLE_COUNT]; /* made on first use */
    int64_t run_id, sweep_id;                 /* begun last; 0: none */
    bool begun;                               /* by store_begin() */
};

/* ---- opening ---- */

enum { APPLICATION_ID = 0x426c7374 /* "Blst" */ };

/* What brings a file of version v to a later one; an empty file is version 0. Each sets
 * user_version. */
static const char *const upgrades[STORE_SCHEMA_VERSION] = {
    schema_sql,     upgrade_2_sql,  upgrade_3_sql,  upgrade_4_sql,  upgrade_5_sql,  upgrade_6_sql,
    upgrade_7_sql,  upgrade_8_sql,  upgrade_9_sql,  upgrade_10_sql, upgrade_11_sql, upgrade_12_sql,
    upgrade_13_sql, upgrade_14_sql, upgrade_15_sql, upgrade_16_sql, upgrade_17_sql
};

static bool upgrade(struct db *db, struct error *err) {
    int64_t version;
    /* Another process may have done it while this one waited for the lock. */
    if (!db_execute(db, "BEGIN IMMEDIATE", err) ||
        !db_integer(db, "PRAGMA user_version", &version, err))
        return false;
    while (version < STORE_SCHEMA_VERSION) {
        if (!db_execute(db, upgrades[version], err) ||
            !db_integer(db, "PRAGMA user_version", &version, err))
            return error_context(err, "while preparing the tables");
    }
    return db_execute(db, "COMMIT", err);
}

/* Looks before anything is changed: the file may belong to someone else. */
static bool check_or_upgrade(struct db *db, struct error *err) {
    int64_t application, version, object_count;
    if (!db_integer(db, "PRAGMA application_id", &application, err) ||
        !db_integer(db, "PRAGMA user_version", &version, err) ||
        !db_integer(db, "SELECT count(*) FROM sqlite_schema", &object_count, err))
        return false;
    bool empty = application == 0 && version == 0 && object_count == 0;
    if (!empty && application != APPLICATION_ID)
        return error_set(err, "'%s' is a database of another program", db->path);
    if (version > STORE_SCHEMA_VERSION) {
        error_set(err,
                  "database '%s' was written by a newer version (its tables are version %d, "
                  "known here are those up to %d)",
                  db->path, (int)version, STORE_SCHEMA_VERSION);
        return error_hint(err, "use that version, or another file");
    }
    if (version < 0 || (version == 0 && !empty)) {
        error_set(err, "the tables of database '%s' are of no known version", db->path);
        return error_hint(err, "another program changed it: use a copy of before, or another file");
    }
    if (db->mode == DB_WRITE)
        return db_begin_writing(db, err) && (version == STORE_SCHEMA_VERSION || upgrade(db, err));
    if (empty) return error_set(err, "database '%s' holds no results yet", db->path);
    /* One that may not be written, or is kept as it is, can be read all the same. */
    return version == STORE_SCHEMA_VERSION || (db_read_copy(db, err) && upgrade(db, err) &&
                                               db_execute(db, "PRAGMA query_only = ON", err));
}

static char *select_sql(const struct record_table *table, const char *key);

/* Before work whose results go there: every table that rows are written to, with its columns. */
static bool check_tables(struct db *db, struct error *err) {
    bool ok = true;
    for (int t = 0; ok && t < RECORD_TABLE_COUNT; t++) {
        char *sql = select_sql(&record_tables[t], NULL);
        sqlite3_stmt *statement = db_prepare(db, sql, err);
        ok = statement != NULL;
        sqlite3_finalize(statement);
        sqlite3_free(sql);
    }
    return ok;
}

struct store *store_open(const char *path, enum db_mode mode, struct error *err) {
    struct db *db = db_open(path, mode, err);
    if (db == NULL) return NULL;
    if (!check_or_upgrade(db, err) || (mode == DB_WRITE && !check_tables(db, err))) {
        db_close(db);
        return NULL;
    }
    struct store *store = memory_alloc(sizeof *store);
    *store = (struct store){ .db = db };
    return store;
}

static void roll_back(struct store *store) {
    /* SQLite ends the transaction itself when the disk is full. */
    if (!sqlite3_get_autocommit(store->db->handle))
        sqlite3_exec(store->db->handle, "ROLLBACK", NULL, NULL, NULL);
    store->run_id = 0;
    store->begun = false;
}

void store_close(struct store *store) {
    if (store == NULL) return;
    for (int t = 0; t < RECORD_TABLE_COUNT; t++)
        sqlite3_finalize(store->insert[t]);
    roll_back(store);
    db_close(store->db);
    free(store);
}

void store_stop(struct store *store) {
    db_stop(store->db);
}

struct db *store_db(struct store *store) {
    return store->db;
}

int64_t store_sweep_id(const struct store *store) {
    return store->sweep_id;
}

/* ---- SQL text from the tables ---- */

/* "SELECT id, name FROM run WHERE id = ?1 ORDER BY id"; key NULL: all rows. The caller frees. */
static char *select_sql(const struct record_table *table, const char *key) {
    char *sql = sqlite3_mprintf("SELECT ");
    for (int c = 0; c < table->column_count; c++)
        sql = sqlite3_mprintf("%z%s%s", sql, c > 0 ? ", " : "", table->columns[c].name);
    sql = sqlite3_mprintf("%z FROM %s", sql, table->name);
    if (key != NULL) sql = sqlite3_mprintf("%z WHERE %s = ?1", sql, key);
    return sqlite3_mprintf("%z ORDER BY %s", sql, table->order);
}

/* Parameter 1 is the owner, the columns follow; without an owner they begin at 1. */
static char *insert_sql(const struct record_table *table) {
    const char *owner = table->owner_column;
    char *names = sqlite3_mprintf("%s", owner != NULL ? owner : "");
    char *marks = sqlite3_mprintf("%s", owner != NULL ? "?" : "");
    for (int c = 0; c < table->column_count; c++) {
        const char *comma = owner != NULL || c > 0 ? ", " : "";
        names = sqlite3_mprintf("%z%s%s", names, comma, table->columns[c].name);
        marks = sqlite3_mprintf("%z%s?", marks, comma);
    }
    return sqlite3_mprintf("INSERT %sINTO %s (%z) VALUES (%z)",
                           table->replaces ? "OR REPLACE " : "", table->name, names, marks);
}

/* All but the id, column 0: setting a parent key, even to itself, makes SQLite visit every child.
 */
static char *update_sql(const struct record_table *table) {
    char *sql = sqlite3_mprintf("UPDATE %s SET ", table->name);
    for (int c = 1; c < table->column_count; c++)
        sql =
            sqlite3_mprintf("%z%s%s = ?%d", sql, c > 1 ? ", " : "", table->columns[c].name, c + 1);
    return sqlite3_mprintf("%z WHERE id = ?1", sql);
}

static sqlite3_stmt *prepare_and_free(struct db *db, char *sql, struct error *err) {
    if (sql == NULL) ballast_bug("no memory for SQL text");
    sqlite3_stmt *statement = db_prepare(db, sql, err);
    sqlite3_free(sql);
    return statement;
}

/* ---- one row ---- */

static void bind_column(sqlite3_stmt *statement, int parameter, const struct record_column *column,
                        const void *record) {
    const void *member = (const char *)record + column->offset;
    switch (column->type) {
    case RECORD_INTEGER:
        sqlite3_bind_int64(statement, parameter, *(const int64_t *)member);
        break;
    case RECORD_COUNT:
        if (*(const int64_t *)member < 0)
            sqlite3_bind_null(statement, parameter);
        else
            sqlite3_bind_int64(statement, parameter, *(const int64_t *)member);
        break;
    case RECORD_BOOL:
        sqlite3_bind_int(statement, parameter, *(const bool *)member);
        break;
    case RECORD_REAL: /* SQLite stores NaN as NULL */
        sqlite3_bind_double(statement, parameter, *(const double *)member);
        break;
    case RECORD_TEXT: /* a NULL pointer binds NULL */
        sqlite3_bind_text(statement, parameter, *(const char *const *)member, -1, SQLITE_STATIC);
        break;
    }
}

static void read_column(sqlite3_stmt *statement, int index, const struct record_column *column,
                        void *record, struct arena *arena) {
    void *member = (char *)record + column->offset;
    bool null = sqlite3_column_type(statement, index) == SQLITE_NULL;
    switch (column->type) {
    case RECORD_INTEGER:
    case RECORD_COUNT:
        *(int64_t *)member = null ? -1 : sqlite3_column_int64(statement, index);
        break;
    case RECORD_BOOL:
        *(bool *)member = sqlite3_column_int(statement, index) != 0;
        break;
    case RECORD_REAL:
        *(double *)member = null ? NAN : sqlite3_column_double(statement, index);
        break;
    case RECORD_TEXT:
        *(const char **)member =
            null ? NULL : arena_text(arena, (const char *)sqlite3_column_text(statement, index));
        break;
    }
}

static bool step_and_reset(struct db *db, sqlite3_stmt *statement, struct error *err) {
    bool done = db_step(db, statement, err) == DB_DONE;
    sqlite3_reset(statement);
    return done;
}

/* ---- writing ---- */

static bool commit(struct store *store, struct error *err) {
    if (!db_execute(store->db, "COMMIT", err)) return false;
    store->db->created = false; /* from now on it is worth keeping */
    return true;
}

/* Texts that the caller left to the store. */
struct stamp {
    char utc[32];
    char host[256];
};

static void stamp_now(struct stamp *stamp) {
    time_t now = time(NULL);
    struct tm utc;
    strftime(stamp->utc, sizeof stamp->utc, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (gethostname(stamp->host, sizeof stamp->host) != 0) strcpy(stamp->host, "unknown");
    stamp->host[sizeof stamp->host - 1] = '\0';
}

static bool is_stamped(const struct record_column *column) {
    return strcmp(column->name, "created_utc") == 0 || strcmp(column->name, "host") == 0;
}

/* id 0 lets SQLite choose the next one. */
static bool insert_row(struct store *store, sqlite3_stmt *statement,
                       const struct record_table *table, int64_t owner, const void *record,
                       const struct stamp *stamp, struct error *err) {
    int parameter = 1;
    if (table->owner_column != NULL) sqlite3_bind_int64(statement, parameter++, owner);
    for (int c = 0; c < table->column_count; c++, parameter++) {
        const struct record_column *column = &table->columns[c];
        bind_column(statement, parameter, column, record);
        if (table->owner_column != NULL) continue;
        if (c == 0) sqlite3_bind_null(statement, parameter);
        const char *const *text = (const void *)((const char *)record + column->offset);
        if (is_stamped(column) && *text == NULL)
            sqlite3_bind_text(statement, parameter,
                              strcmp(column->name, "host") == 0 ? stamp->host : stamp->utc, -1,
                              SQLITE_STATIC);
    }
    return step_and_reset(store->db, statement, err);
}

static bool insert_rows(struct store *store, enum record_table_id id, const void *records,
                        int64_t count, struct error *err) {
    const struct record_table *table = &record_tables[id];
    if (store->insert[id] == NULL)
        store->insert[id] = prepare_and_free(store->db, insert_sql(table), err);
    if (store->insert[id] == NULL) return false;
    struct stamp stamp;
    if (table->owner_column == NULL) stamp_now(&stamp);
    int64_t owner = table->owner == RECORD_SWEEP ? store->sweep_id : store->run_id;
    for (int64_t i = 0; i < count; i++) {
        const char *record = (const char *)records + (size_t)i * table->record_size;
        if (!insert_row(store, store->insert[id], table, owner, record, &stamp, err)) return false;
    }
    return true;
}

bool store_add(struct store *store, enum record_table_id id, const void *records, int64_t count,
               struct error *err) {
    const struct record_table *table = &record_tables[id];
    ballast_check(id != RECORD_RUN && id != RECORD_SWEEP);
    ballast_check(table->owner != RECORD_RUN || store->run_id != 0);
    ballast_check(table->owner != RECORD_SWEEP || store->sweep_id != 0);
    if (!sqlite3_get_autocommit(store->db->handle)) {
        if (insert_rows(store, id, records, count, err)) return true;
        if (store->begun) roll_back(store);
        return false;
    }
    if (!db_execute(store->db, "BEGIN IMMEDIATE", err)) return false;
    if (insert_rows(store, id, records, count, err) && commit(store, err)) return true;
    roll_back(store);
    return false;
}

bool store_begin_run(struct store *store, struct run_record *run, struct error *err) {
    ballast_check(store->run_id == 0);
    if (!db_execute(store->db, "BEGIN IMMEDIATE", err)) return false;
    struct run_record begun = *run;
    begun.status = "running";
    if (!insert_rows(store, RECORD_RUN, &begun, 1, err)) {
        roll_back(store);
        return false;
    }
    run->id = store->run_id = sqlite3_last_insert_rowid(store->db->handle);
    return true;
}

/* Writes the run again, stamped with the time at which it ends. */
static bool update_run(struct store *store, const struct run_record *run, struct error *err) {
    const struct record_table *table = &record_tables[RECORD_RUN];
    struct stamp stamp;
    stamp_now(&stamp);
    struct run_record full = *run;
    full.id = store->run_id;
    if (full.created_utc == NULL) full.created_utc = stamp.utc;
    if (full.host == NULL) full.host = stamp.host;
    sqlite3_stmt *statement = prepare_and_free(store->db, update_sql(table), err);
    if (statement == NULL) return false;
    for (int c = 0; c < table->column_count; c++)
        bind_column(statement, c + 1, &table->columns[c], &full);
    bool done = step_and_reset(store->db, statement, err);
    sqlite3_finalize(statement);
    return done;
}

bool store_finish_run(struct store *store, const struct run_record *run, struct error *err) {
    ballast_check(store->run_id != 0);
    if (update_run(store, run, err) && commit(store, err)) {
        store->run_id = 0;
        return true;
    }
    roll_back(store);
    return false;
}

void store_abandon_run(struct store *store) {
    if (store->run_id != 0) roll_back(store);
}

static bool other_sweep(struct store *store, const char *name, const char *what,
                        struct error *err) {
    error_set(err, "sweep \"%s\" in '%s' was begun %s", name, store->db->path, what);
    return error_hint(err, "give the sweep another \"name\", or use another database");
}

/* Of a sweep that pruned in shards. */
static bool is_part(const char *definition) {
    return definition != NULL && strstr(definition, "\"prune\":\"in shards\"") != NULL;
}

/* *sweep_id 0: there is none of that name. */
static bool find_sweep(struct store *store, const struct sweep_record *sweep, int64_t *sweep_id,
                       struct error *err) {
    sqlite3_stmt *find = db_prepare(
        store->db,
        "SELECT id, definition = ?2, tool_version = ?3 AND source_commit = ?4,"
        " tool_version, source_commit, definition FROM sweep WHERE name = ?1 ORDER BY id",
        err);
    if (find == NULL) return false;
    sqlite3_bind_text(find, 1, sweep->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(find, 2, sweep->definition, -1, SQLITE_STATIC);
    sqlite3_bind_text(find, 3, sweep->tool_version, -1, SQLITE_STATIC);
    sqlite3_bind_text(find, 4, sweep->source_commit, -1, SQLITE_STATIC);
    enum db_step step = db_step(store->db, find, err);
    bool ok = step != DB_ERROR;
    *sweep_id = step == DB_ROW ? sqlite3_column_int64(find, 0) : 0;
    const bool stored_part = step == DB_ROW && is_part((const char *)sqlite3_column_text(find, 5));
    if (step == DB_ROW && !sqlite3_column_int(find, 1)) {
        ok = other_sweep(store, sweep->name,
                         is_part(sweep->definition) == stored_part ? "with another definition"
                         : stored_part ? "as a part (--shard), and this is a whole sweep"
                                       : "as a whole, and this is a part (--shard)",
                         err);
    } else if (step == DB_ROW && !sqlite3_column_int(find, 2)) {
        char what[160];
        snprintf(what, sizeof what, "by another version of Ballast, %.40s commit %.60s",
                 (const char *)sqlite3_column_text(find, 3),
                 (const char *)sqlite3_column_text(find, 4));
        ok = other_sweep(store, sweep->name, what, err);
    }
    sqlite3_finalize(find);
    return ok;
}

static void bind_real(sqlite3_stmt *statement, int index, double value) {
    if (isnan(value))
        sqlite3_bind_null(statement, index);
    else
        sqlite3_bind_double(statement, index, value);
}

/* What is chosen by may change from call to call; the rows do not depend on it. */
static bool set_limits(struct store *store, const struct sweep_record *sweep, int64_t sweep_id,
                       struct error *err) {
    sqlite3_stmt *update = db_prepare(
        store->db,
        "UPDATE sweep SET objective = ?1, deadline_days = ?2, budget_usd = ?3 WHERE id = ?4", err);
    if (update == NULL) return false;
    sqlite3_bind_text(update, 1, sweep->objective, -1, SQLITE_STATIC);
    bind_real(update, 2, sweep->deadline_days);
    bind_real(update, 3, sweep->budget_usd);
    sqlite3_bind_int64(update, 4, sweep_id);
    const bool done = db_step(store->db, update, err) == DB_DONE;
    sqlite3_finalize(update);
    return done;
}

bool store_begin_sweep(struct store *store, const struct sweep_record *sweep, int64_t *sweep_id,
                       struct error *err) {
    ballast_check(store->run_id == 0);
    const bool inside = store->begun;
    if (!inside && !db_execute(store->db, "BEGIN IMMEDIATE", err)) return false;
    bool found = find_sweep(store, sweep, sweep_id, err);
    if (found && *sweep_id == 0) {
        found = insert_rows(store, RECORD_SWEEP, sweep, 1, err);
        *sweep_id = sqlite3_last_insert_rowid(store->db->handle);
    } else if (found) {
        found = set_limits(store, sweep, *sweep_id, err);
    }
    if (found && (inside || commit(store, err))) {
        store->sweep_id = *sweep_id;
        return true;
    }
    roll_back(store);
    return false;
}

bool store_begin(struct store *store, struct error *err) {
    store->begun = db_execute(store->db, "BEGIN IMMEDIATE", err);
    return store->begun;
}

bool store_end(struct store *store, struct error *err) {
    store->begun = false;
    if (commit(store, err)) return true;
    roll_back(store);
    return false;
}

/* ---- reading ---- */

static bool scenario_names(struct store *store, struct arena *arena, const char ***names,
                           struct error *err) {
    int64_t count;
    if (!db_integer(store->db, "SELECT count(DISTINCT scenario_name) FROM run", &count, err))
        return false;
    *names = arena_array(arena, const char *, count + 1);
    sqlite3_stmt *statement =
        db_prepare(store->db, "SELECT DISTINCT scenario_name FROM run ORDER BY scenario_name", err);
    if (statement == NULL) return false;
    enum db_step step = DB_ROW;
    for (int64_t i = 0; i < count && (step = db_step(store->db, statement, err)) == DB_ROW; i++)
        (*names)[i] = arena_text(arena, (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return step != DB_ERROR;
}

static bool no_such_run(struct store *store, const char *name, struct error *err) {
    struct arena *arena = arena_create();
    const char **names;
    if (scenario_names(store, arena, &names, err)) {
        const char *nearest = nearest_in_list(name, names);
        error_set(err, "database '%s' has no run '%s'", store->db->path, name);
        if (nearest != NULL) error_hint(err, "did you mean '%s'?", nearest);
    }
    arena_destroy(arena);
    return false;
}

/* "1, 4 and 7"; of many, the newest and how many there are. */
static bool several_runs(const char *name, const int64_t *ids, int64_t listed, int64_t count,
                         struct error *err) {
    char list[256] = "";
    for (int64_t i = 0; i < listed; i++) {
        size_t used = strlen(list);
        const char *before = i == 0 ? "" : i + 1 == listed && listed == count ? " and " : ", ";
        snprintf(list + used, sizeof list - used, "%s%lld", before, (long long)ids[i]);
    }
    error_set(err, "'%s' names %d runs: %s%s", name, (int)count,
              listed < count ? "the newest are " : "", list);
    return error_hint(err, "give the number of the one that is meant");
}

bool store_find_run(struct store *store, const char *name, int64_t *run_id, struct error *err) {
    enum { LISTED = 8 };
    /* A scenario may be called "7"; an id that exists goes first. */
    sqlite3_stmt *statement =
        db_prepare(store->db,
                   "SELECT id, CAST(id AS TEXT) = ?1 AS by_id FROM run"
                   " WHERE CAST(?1 AS INTEGER) = id AND by_id OR scenario_name = ?1"
                   " ORDER BY by_id DESC, id DESC",
                   err);
    if (statement == NULL) return false;
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    int64_t ids[LISTED], count = 0;
    bool by_id = false;
    enum db_step step;
    while (!by_id && (step = db_step(store->db, statement, err)) == DB_ROW) {
        by_id = sqlite3_column_int(statement, 1) != 0;
        if (count < LISTED) ids[count] = sqlite3_column_int64(statement, 0);
        count++;
    }
    sqlite3_finalize(statement);
    if (!by_id && step == DB_ERROR) return false;
    if (count == 0) return no_such_run(store, name, err);
    if (count > 1) return several_runs(name, ids, count < LISTED ? count : LISTED, count, err);
    *run_id = ids[0];
    return true;
}

void *store_load(struct store *store, enum record_table_id id, int64_t owner, struct arena *arena,
                 int64_t *count, struct error *err) {
    const struct record_table *table = &record_tables[id];
    const char *key = table->owner_column;
    if (key == NULL && owner >= 0) key = "id";
    sqlite3_stmt *statement = prepare_and_free(store->db, select_sql(table, key), err);
    if (statement == NULL) return NULL;
    if (key != NULL) sqlite3_bind_int64(statement, 1, owner);
    int64_t capacity = 64;
    char *records = arena_alloc(arena, (size_t)capacity * table->record_size);
    enum db_step step;
    for (*count = 0; (step = db_step(store->db, statement, err)) == DB_ROW; ++*count) {
        if (*count == capacity) {
            char *larger = arena_alloc(arena, 2 * (size_t)capacity * table->record_size);
            memcpy(larger, records, (size_t)capacity * table->record_size);
            records = larger;
            capacity *= 2;
        }
        char *record = records + (size_t)*count * table->record_size;
        for (int c = 0; c < table->column_count; c++)
            read_column(statement, c, &table->columns[c], record, arena);
    }
    sqlite3_finalize(statement);
    return step == DB_DONE ? records : NULL;
}

bool store_query(struct store *store, const char *sql, int64_t id, store_row row, void *context,
                 struct error *err) {
    sqlite3_stmt *statement = db_prepare(store->db, sql, err);
    if (statement == NULL) return false;
    if (sqlite3_bind_parameter_count(statement) > 0) sqlite3_bind_int64(statement, 1, id);
    enum db_step step;
    bool wanted = true;
    while (wanted && (step = db_step(store->db, statement, err)) == DB_ROW)
        wanted = row(context, statement, err);
    sqlite3_finalize(statement);
    return wanted && step == DB_DONE;
}
