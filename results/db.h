/* db.h - SQLite in a few thin verbs whose errors are sentences.
 *
 * Values are bound and read with SQLite's own sqlite3_bind_*() and sqlite3_column_*(); what is here
 * opens, prepares and steps, and turns a failure into one clear sentence that names the database.
 * SQLite's code and message follow only where the sentence has no reason of its own, the SQL text
 * only where a statement was refused. A damaged or foreign file, a folder, a missing folder or
 * ":memory:" is the input's fault (exit 2); a full disk, a read-only folder or a second writer is
 * the machine's (exit 1). A second writer waits ten seconds for the first.
 *
 *     sqlite3_stmt *s = db_prepare(db, "SELECT id FROM run WHERE seed = ?", err);
 *     sqlite3_bind_int64(s, 1, 1024);
 *     while ((step = db_step(db, s, err)) == DB_ROW) use(sqlite3_column_int64(s, 0));
 *     sqlite3_finalize(s);
 *
 * A writer keeps a write-ahead log beside the file (FILE-wal, FILE-shm) and folds it in when it
 * closes. A process killed at any moment loses only its open transaction; move or copy a database
 * left by a killed process together with these files, or open it once before. A process that is
 * asked to stop calls db_stop() and leaves none.
 */
#ifndef BALLAST_RESULTS_DB_H
#define BALLAST_RESULTS_DB_H

#include <sqlite3.h>
#include <stdint.h>
#include "sim/base/error.h"

enum db_mode { DB_READ, DB_WRITE /* made if missing */ };
enum db_step { DB_ROW, DB_DONE, DB_ERROR };

struct db {
    sqlite3 *handle;
    char *path;
    enum db_mode mode;
    bool created; /* the file was not there before, and nothing is stored yet */
};

struct db *db_open(const char *path, enum db_mode mode, struct error *err); /* NULL: failed */
void db_close(struct db *db);
/* For a thread of its own, in a process that ends next: keeps the others from the database for
 * good, between two of their transactions, and folds the log in. A transaction that does not end
 * within a second and a half is undone. Nothing of it comes about if one call of SQLite takes two
 * seconds; then the log stays, and what was stored is not lost either. */
void db_stop(struct db *db);
/* A reader goes on with a private copy, which it may change: on disk as far as it does not fit in
 * memory, and gone when it is closed. The file stays as it is, and is what errors name. */
bool db_read_copy(struct db *db, struct error *err);
/* Turns the write-ahead log on. Not part of opening: it changes the file, so look at it first. */
bool db_begin_writing(struct db *db, struct error *err);

/* One or more statements without results. */
bool db_execute(struct db *db, const char *sql, struct error *err);
sqlite3_stmt *db_prepare(struct db *db, const char *sql, struct error *err); /* NULL: failed */
enum db_step db_step(struct db *db, sqlite3_stmt *statement, struct error *err);
/* The first column of the first row of a query; 0 if there is none. */
bool db_integer(struct db *db, const char *sql, int64_t *value, struct error *err);
/* Describes the connection's last failure. Always returns false. */
bool db_error(struct db *db, const char *sql, struct error *err);

#endif
