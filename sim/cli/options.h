/* options.h - command-line options as data: one row per option feeds parser, --help and completion.
 *
 *     static const struct option options[] = {
 *         { "db", OPTION_TEXT, offsetof(struct run_options, db), "FILE", "store the results there",
 * NULL, 0, 0 },
 *     };
 */
#ifndef BALLAST_SIM_CLI_OPTIONS_H
#define BALLAST_SIM_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

enum option_type {
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char *; NULL: not given */
    OPTION_OUTPUT,  /* as OPTION_TEXT: a file to write; refused where none can be */
    OPTION_PICTURE, /* as OPTION_OUTPUT: one that gnuplot draws, of a kind that it knows */
    OPTION_COUNT,   /* int64_t; keeps its value when not given */
    OPTION_NUMBER,  /* double; keeps its value when not given */
    OPTION_CHOICE,  /* int; keeps its value when not given */
    OPTION_LIST,    /* struct option_list: repeatable */
};

struct option_list {
    const char **items; /* NULL at the end; NULL when never given */
    int64_t count;
};

struct option {
    const char *name; /* without dashes */
    enum option_type type;
    size_t offset;
    const char *metavar, *help;
    const char *const *choices;
    double min, max;
};

/* What every command takes. */
struct common_options {
    bool help, json, quiet;
    struct option_list set, unset, plugins;
    const char *scenarios; /* folder of models/, datasets/, hardware/ */
};

struct arguments {
    const char **positional; /* NULL at the end */
    int64_t count;
};

/* Options may stand anywhere; "--name value" and "--name=value"; "--" ends them. */
bool options_parse(const struct option *options, size_t option_count, bool takes_scenario,
                   void *values, struct common_options *common, int argc, char **argv,
                   struct arena *arena, struct arguments *arguments, struct error *err);
/* What every command takes, as a table. */
const struct option *options_common(size_t *count);
/* --set and --unset are left out where there is no scenario to change, --plugin where no policy is
 * named either. */
void options_help(const struct option *options, size_t option_count, bool takes_scenario,
                  bool takes_plugins, FILE *out);

#endif
