/* db.c - opening, stepping, and what each SQLite failure means to the user.
 *
 * Journal: write-ahead log with synchronous=NORMAL. A commit costs no disk flush, readers never
 * wait for the writer, and a crash of the process or the machine leaves a consistent file. The log
 * is folded in on closing, so that a closed database is one plain file that opens from a read-only
 * folder. Where the log is impossible (some network file systems) SQLite keeps its rollback
 * journal.
 */
#include "results/db.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "sim/base/arena.h"

/* Long enough for another process to store a run with all its rows, even on a slow disk. */
enum { BUSY_TIMEOUT_MS = 10000 };

/* Our statements name what store_open() found or made: what is missing was taken away since. */
static bool lacks(const struct db *db, const char *message, struct error *err) {
    static const struct {
        const char *mark, *what;
    } signs[] = { { "no such table: ", "table or view" },
                  { "no such view: ", "table or view" },
                  { "no such column: ", "column" },
                  { "has no column named ", "column" } };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        const char *name = strstr(message, signs[i].mark);
        if (name == NULL) continue;
        name += strlen(signs[i].mark);
        if (strncmp(name, "main.", 5) == 0) name += 5;
        error_set(err, "database '%s' lacks the %s \"%s\", which was there when it was made",
                  db->path, signs[i].what, name);
        error_hint(err, "another program changed it: use a copy of before, or another file");
        return true;
    }
    return false;
}

/* A reader writes nothing else: see db_read_copy(). */
static void no_room_for_copy(const struct db *db, struct error *err) {
    error_set(err,
              "database '%s' is of an older version, and there is no room for the temporary copy "
              "that it is read in",
              db->path);
    error_hint(err, "TMPDIR names the folder of such files");
}

/* What went wrong, told from the primary result code and the system's errno. SQLite's own words are
 * added only where they say more than the sentence, and the SQL only where it is to blame. */
bool db_error(struct db *db, const char *sql, struct error *err) {
    int code = sqlite3_extended_errcode(db->handle);
    const char *message = sqlite3_errmsg(db->handle);
    int system_errno = sqlite3_system_errno(db->handle);
    const char *colon = system_errno != 0 ? ": " : "";
    const char *reason = system_errno != 0 ? strerror(system_errno) : "";
    bool internal = true;
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        error_set(err, "database '%s' is being written by another process", db->path);
        error_hint(err,
                   "one process writes a database at a time; wait for it, or use another file");
        break;
    case SQLITE_FULL:
        if (db->mode == DB_READ) {
            no_room_for_copy(db, err);
            break;
        }
        error_set(err, "cannot write database '%s': the disk is full", db->path);
        if (!db->created) error_hint(err, "the runs stored before are kept");
        break;
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_WRITE && db->mode == DB_READ) {
            no_room_for_copy(db, err);
            break;
        }
        if (code ==
            SQLITE_IOERR_WRITE) { /* a quota or size limit; SQLite keeps no errno of these */
            error_set(err, "cannot write database '%s': the disk is full or failed", db->path);
        } else {
            error_set(err, "cannot read or write database '%s'%s%s", db->path, colon, reason);
            error_context(err, "SQLite %d: %s", code, message);
        }
        if (!db->created) error_hint(err, "the runs stored before are kept");
        break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        error_set(err, "cannot %s database '%s'%s%s", db->mode == DB_WRITE ? "write" : "open",
                  db->path, colon, reason);
        /* A name that the file system does not take is the input's fault. */
        internal = system_errno != ENOENT && system_errno != ENAMETOOLONG && system_errno != ELOOP;
        if (!internal) break;
        error_hint(err, db->mode == DB_WRITE
                            ? "the file and its folder must allow writing"
                            : "a database left by a killed process must be opened once where its "
                              "folder allows writing");
        break;
    case SQLITE_NOTADB:
        error_set(err, "'%s' is not a database of results", db->path);
        internal = false;
        break;
    case SQLITE_CORRUPT:
        error_set(err, "database '%s' is damaged", db->path);
        error_hint(err, "'sqlite3 FILE .recover' saves what can be read");
        internal = false;
        break;
    default:
        if (lacks(db, message, err)) {
            internal = false;
            break;
        }
        if (strstr(message, "malformed JSON") !=
            NULL) { /* SQLite's json1 on what we stored whole */
            error_set(err, "database '%s' holds a scenario or definition that is no JSON",
                      db->path);
            error_hint(err, "another program changed it: use a copy of before, or another file");
            internal = false;
            break;
        }
        error_set(err, "database '%s' refused a statement", db->path);
        error_context(err, "SQLite %d: %s%s%s", code, message, sql != NULL ? "; in: " : "",
                      sql != NULL ? sql : "");
        break;
    }
    if (err != NULL) err->internal = internal;
    return false;
}

/* SQLite tells a folder, a missing folder and a forbidden one apart only by codes of its own; the
 * system knows the reason. A mistake in the name is the input's fault, missing rights the
 * machine's. */
static bool check_folder(const char *path, struct error *err) {
    char *copy = strdup(path);
    const char *folder = dirname(copy);
    struct stat status = { 0 };
    bool ok = true;
    if (stat(folder, &status) != 0 && (errno == ENOENT || errno == ENOTDIR))
        ok = error_set(err, "cannot write database '%s': there is no folder '%s'", path, folder);
    else if (status.st_mode != 0 && !S_ISDIR(status.st_mode))
        ok = error_set(err, "cannot write database '%s': '%s' is not a folder", path, folder);
    else if (access(folder, W_OK | X_OK) != 0)
        ok = error_system(err, "cannot write database '%s' in folder '%s'", path, folder);
    free(copy);
    return ok;
}

static bool check_path(const char *path, enum db_mode mode, struct error *err) {
    /* SQLite's names for databases that are gone when they are closed. */
    if (path[0] == '\0' || strcmp(path, ":memory:") == 0) {
        error_set(err, "database '%s' would keep nothing", path);
        return error_hint(err, "name a file");
    }
    if (strcmp(path, "-") == 0) {
        error_set(err, "database '-' is no name of a file");
        return error_hint(err, "\"./-\" is one");
    }
    struct stat status;
    if (stat(path, &status) != 0) {
        bool missing = errno == ENOENT || errno == ENOTDIR;
        if (mode == DB_WRITE) return check_folder(path, err);
        if (missing) return error_set(err, "there is no database '%s'", path);
        if (errno == ENAMETOOLONG || errno == ELOOP)
            return error_set(err, "cannot open database '%s': %s", path, strerror(errno));
        return error_system(err, "cannot open database '%s'", path);
    }
    if (S_ISDIR(status.st_mode)) {
        error_set(err, "'%s' is a folder, not a database", path);
        return error_hint(err, "name a file in it");
    }
    if (!S_ISREG(status.st_mode)) return error_set(err, "'%s' is not a file", path);
    if (mode == DB_READ)
        return access(path, R_OK) == 0 || error_system(err, "cannot open database '%s'", path);
    /* The log lies beside the file. */
    return (access(path, W_OK) == 0 || error_system(err, "cannot write database '%s'", path)) &&
           check_folder(path, err);
}

static bool set_up(struct db *db, struct error *err) {
    sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
    return db_execute(db,
                      "PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON;"
                      "PRAGMA cache_size = -32000; PRAGMA temp_store = MEMORY",
                      err);
}

static bool open_handle(struct db *db, struct error *err) {
    int flags =
        db->mode == DB_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (sqlite3_open_v2(db->path, &db->handle, flags, NULL) != SQLITE_OK)
        return db_error(db, NULL, err);
    /* SQLite opens a file that it may not write as read-only without a word. */
    if (db->mode == DB_WRITE && sqlite3_db_readonly(db->handle, "main") == 1) {
        error_set(err, "cannot write database '%s': the file is read-only", db->path);
        if (err != NULL) err->internal = true;
        return false;
    }
    return set_up(db, err);
}

struct db *db_open(const char *path, enum db_mode mode, struct error *err) {
    if (!check_path(path, mode, err)) return NULL;
    struct db *db = memory_alloc(sizeof *db);
    *db = (struct db){ .path = strdup(path), .mode = mode };
    db->created = mode == DB_WRITE && access(path, F_OK) != 0;
    if (open_handle(db, err)) return db;
    db_close(db);
    return NULL;
}

bool db_read_copy(struct db *db, struct error *err) {
    ballast_check(db->mode == DB_READ);
    struct db copy = *db;
    /* Before set_up(): a database without a name is in memory where temporary tables are. */
    bool done = sqlite3_open("", &copy.handle) == SQLITE_OK;
    sqlite3_backup *backup =
        done ? sqlite3_backup_init(copy.handle, "main", db->handle, "main") : NULL;
    done = backup != NULL && sqlite3_backup_step(backup, -1) == SQLITE_DONE;
    sqlite3_backup_finish(backup); /* keeps the step's failure */
    done = done ? set_up(&copy, err) : db_error(&copy, NULL, err);
    if (done) {
        sqlite3_close(db->handle);
        db->handle = copy.handle;
    } else {
        sqlite3_close(copy.handle);
    }
    return done;
}

/* Tables may be there, but no rows. */
static bool holds_nothing(struct db *db) {
    struct error ignored = { 0 };
    sqlite3_stmt *tables = db_prepare(
        db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
        &ignored);
    bool nothing = tables != NULL;
    enum db_step step = DB_DONE;
    while (nothing && (step = db_step(db, tables, &ignored)) == DB_ROW) {
        int64_t rows = 1;
        char *sql = sqlite3_mprintf("SELECT EXISTS (SELECT 1 FROM \"%w\")",
                                    (const char *)sqlite3_column_text(tables, 0));
        nothing = db_integer(db, sql, &rows, &ignored) && rows == 0;
        sqlite3_free(sql);
    }
    sqlite3_finalize(tables);
    return nothing && step == DB_DONE;
}

/* Nobody else is at it, and nothing was stored. Whoever else has it open keeps the log:
 * `logged`. */
static bool is_unused(struct db *db, bool logged) {
    if (db->handle == NULL) return true;
    if (logged || sqlite3_exec(db->handle, "BEGIN EXCLUSIVE", NULL, NULL, NULL) != SQLITE_OK)
        return false;
    const bool unused = holds_nothing(db);
    sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return unused;
}

/* Of a database that never held anything. */
static void remove_files(const char *path) {
    static const char *const endings[] = { "", "-wal", "-shm", "-journal" };
    char *name = memory_alloc(strlen(path) + 16);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        sprintf(name, "%s%s", path, endings[i]);
        unlink(name);
    }
    free(name);
}

/* Folds the log in. Whether the file is one that is not worth keeping. */
static bool fold(struct db *db) {
    bool logged = false;
    if (db->mode == DB_WRITE && db->handle != NULL) {
        /* Not possible while another process reads; then the last one to close does it, and nothing
         * is lost either way. */
        sqlite3_busy_timeout(db->handle, 0);
        logged =
            sqlite3_exec(db->handle, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) != SQLITE_OK;
    }
    return db->created && is_unused(db, logged);
}

void db_close(struct db *db) {
    if (db == NULL) return;
    const bool unused = fold(db);
    sqlite3_close(db->handle);
    if (unused) remove_files(db->path);
    free(db->path);
    free(db);
}

/* The connection's own mutex, which SQLite takes in each of its calls, is kept. Between two
 * transactions; where none of a second and a half is so, within one. */
static bool take_for_good(struct db *db) {
    sqlite3_mutex *mutex = sqlite3_db_mutex(db->handle);
    const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
    const int patience = 300, tries = 400;
    for (int i = 0; mutex != NULL && i < tries; i++) {
        if (sqlite3_mutex_try(mutex) == SQLITE_OK) {
            if (i >= patience || sqlite3_get_autocommit(db->handle)) return true;
            sqlite3_mutex_leave(mutex);
        }
        nanosleep(&pause, NULL);
    }
    return false;
}

void db_stop(struct db *db) {
    if (!take_for_good(db)) return;
    sqlite3_stmt *statement = NULL; /* one that is being read keeps the log */
    while ((statement = sqlite3_next_stmt(db->handle, statement)) != NULL)
        sqlite3_reset(statement);
    if (!sqlite3_get_autocommit(db->handle)) sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    if (fold(db)) remove_files(db->path);
}

bool db_begin_writing(struct db *db, struct error *err) {
    const char *sql = "PRAGMA journal_mode = WAL";
    sqlite3_stmt *statement = db_prepare(db, sql, err);
    if (statement == NULL) return false;
    bool done = db_step(db, statement, err) == DB_ROW;
    bool logged = done && strcmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
    sqlite3_finalize(statement);
    /* A rollback journal is only safe against a power cut with every flush in place. */
    return done &&
           db_execute(db, logged ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
                      err);
}

bool db_execute(struct db *db, const char *sql, struct error *err) {
    if (sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK) return true;
    /* A whole schema says nothing about the place of the mistake. */
    return db_error(db, strlen(sql) < 200 ? sql : NULL, err);
}

sqlite3_stmt *db_prepare(struct db *db, const char *sql, struct error *err) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) !=
        SQLITE_OK)
        db_error(db, sql, err);
    return statement;
}

enum db_step db_step(struct db *db, sqlite3_stmt *statement, struct error *err) {
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) return DB_ROW;
    if (code == SQLITE_DONE) return DB_DONE;
    db_error(db, sqlite3_sql(statement), err);
    return DB_ERROR;
}

bool db_integer(struct db *db, const char *sql, int64_t *value, struct error *err) {
    *value = 0;
    sqlite3_stmt *statement = db_prepare(db, sql, err);
    if (statement == NULL) return false;
    enum db_step step = db_step(db, statement, err);
    if (step == DB_ROW) *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return step != DB_ERROR;
}
