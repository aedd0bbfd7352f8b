/* cmd_merge.c - the databases of a sweep's shards become one. */
#include "sim/cli/cli.h"
#include "sim/cli/stop_watch.h"
#include "sim/study/sweep/sweep.h"

static bool merge_one(struct store *into, const char *path, int64_t *rows, struct error *err) {
    struct store *from = store_open(path, DB_READ, err);
    bool ok = from != NULL && sweep_merge(into, from, rows, err);
    store_close(from);
    return ok || error_context(err, "while merging '%s'", path);
}

static int run(struct cli *cli, void *options) {
    (void)options;
    struct error err = { 0 };
    const char *const *paths = cli->arguments.positional;
    struct stop_watch watch = { 0 };
    int64_t rows = 0;
    bool ok = stop_watch_open(&watch, paths[0], &err) && store_begin(watch.store, &err);
    for (int64_t i = 1; ok && i < cli->arguments.count; i++)
        ok = merge_one(watch.store, paths[i], &rows, &err);
    ok = ok && store_end(watch.store, &err);
    stop_watch_end(&watch);
    if (!ok) return cli_error(&err);
    if (cli->common.json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "merged_databases", (double)(cli->arguments.count - 1));
        cJSON_AddNumberToObject(object, "new_rows", (double)rows);
        cli_print_json(object);
    } else {
        const long count = (long)cli->arguments.count - 1;
        printf("%ld database%s merged into %s: %ld new row%s\n", count, count == 1 ? "" : "s",
               paths[0], (long)rows, rows == 1 ? "" : "s");
        if (!cli->common.quiet)
            fputs("`ballast sweep` with the sweep's file and this database replays the best.\n",
                  stderr);
    }
    return EXIT_DONE;
}

static const struct option no_options[] = { { 0 } };

const struct command command_merge = {
    .name = "merge",
    .usage = "INTO.db PART.db ...",
    .help = "join the databases of a sweep's shards",
    .more = "All parts are merged or none. `ballast sweep` with the sweep's file and INTO.db then "
            "replays the best.\nA shard prunes by its own rounds, less than one sweep of the whole "
            "would: INTO.db holds more evaluated rows\nand fewer pruned ones, so that its digest "
            "is another. Whatever the whole evaluates stands in both with equal\nfigures; the "
            "best, the front and the answers are the same. With --no-prune the digests are equal "
            "too.\n",
    .options = no_options,
    .min_arguments = 2,
    .max_arguments = -1,
    .run = run,
};
