/* options.c - parsing by table. Common options are a table too. */
#include "sim/cli/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/gnuplot.h"
#include "sim/base/field.h"
#include "sim/scenario/scenario.h"

#define COMMON(member) offsetof(struct common_options, member)
static const struct option common_table[] = {
    { "set", OPTION_LIST, COMMON(set), "PATH=VALUE",
      "change a value of the scenario, e.g. layout.tp=4 (repeatable)", NULL, 0, 0 },
    { "unset", OPTION_LIST, COMMON(unset), "PATH",
      "remove a key of the scenario, after all --set (repeatable)", NULL, 0, 0 },
    { "plugin", OPTION_LIST, COMMON(plugins), "FILE",
      "a shared library with policies of one's own (repeatable)", NULL, 0, 0 },
    { "json", OPTION_FLAG, COMMON(json), NULL, "print one JSON object on stdout", NULL, 0, 0 },
    { "quiet", OPTION_FLAG, COMMON(quiet), NULL, "no progress on stderr", NULL, 0, 0 },
    { "scenarios", OPTION_TEXT, COMMON(scenarios), "DIR",
      "folder of models, datasets, hardware and clusters", NULL, 0, 0 },
    { "help", OPTION_FLAG, COMMON(help), NULL, "this text", NULL, 0, 0 },
};
/* The first ones change a scenario; --plugin is the last of them. */
enum { COMMON_PLUGIN = 2 };
enum { COMMON_OF_SCENARIO = 3, COMMON_COUNT = sizeof common_table / sizeof common_table[0] };

const struct option *options_common(size_t *count) {
    *count = COMMON_COUNT;
    return common_table;
}

struct name_tables {
    const struct option *options;
    size_t count;
};

static const char *option_name(const void *names, size_t index) {
    const struct name_tables *t = names;
    return index < t->count ? t->options[index].name : common_table[index - t->count].name;
}

static const struct option *find(const struct option *options, size_t count, const char *name,
                                 size_t length) {
    for (size_t i = 0; i < count; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

static bool store_number(const struct option *option, const char *text, void *place,
                         struct error *err) {
    char *end;
    double value = strtod(text, &end);
    bool whole = option->type == OPTION_COUNT;
    if (*end != '\0' || text[0] == '\0' || !isfinite(value) || (whole && value != floor(value)))
        return error_set(err, "--%s: expected a %snumber, got \"%s\"", option->name,
                         whole ? "whole " : "", text);
    if ((option->min != 0 || option->max != 0) && (value < option->min || value > option->max))
        return error_set(err, "--%s: must be %.10g to %.10g, got %s", option->name, option->min,
                         option->max, text);
    if (whole)
        *(int64_t *)place = (int64_t)value;
    else
        *(double *)place = value;
    return true;
}

static bool store_choice(const struct option *option, const char *text, int *place,
                         struct error *err) {
    char list[512] = "";
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *place = i;
            return true;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", option->choices[i]);
    }
    return error_set(err, "--%s: unknown value \"%s\"; one of: %s", option->name, text, list);
}

static bool store(const struct option *option, const char *text, void *values, struct arena *arena,
                  struct error *err) {
    void *place = (char *)values + option->offset;
    switch (option->type) {
    case OPTION_FLAG:
        *(bool *)place = true;
        return true;
    case OPTION_OUTPUT:
    case OPTION_PICTURE:
    case OPTION_TEXT:
        if (text[0] == '\0') return error_set(err, "--%s: the value is empty", option->name);
        *(const char **)place = text;
        return option->type == OPTION_TEXT ||
               (option->type == OPTION_OUTPUT ? error_check_output(err, text)
                                              : gnuplot_check(text, err));
    case OPTION_COUNT:
    case OPTION_NUMBER:
        return store_number(option, text, place, err);
    case OPTION_CHOICE:
        return store_choice(option, text, place, err);
    case OPTION_LIST: {
        struct option_list *list = place;
        const char **items = arena_array(arena, const char *, list->count + 2);
        for (int64_t i = 0; i < list->count; i++)
            items[i] = list->items[i];
        items[list->count++] = text;
        list->items = items;
        return true;
    }
    }
    ballast_bug("option %s has no type", option->name);
}

/* "layout.tp" for "tp", "training.micro_batch" for "micro-batch", itself for "layout.tp"; NULL: no
 * field of a scenario is called so. */
static const char *field_called(struct arena *arena, const char *unknown) {
    char *name = arena_text(arena, unknown);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    const char *dot = strchr(name, '.');
    size_t count;
    const struct field_table *const *sections = scenario_sections(&count);
    for (size_t i = 1; i < count; i++) { /* 0: the top level */
        const size_t length = strlen(sections[i]->name);
        if (dot != NULL &&
            ((size_t)(dot - name) != length || strncmp(name, sections[i]->name, length) != 0))
            continue;
        if (field_table_find(sections[i], dot != NULL ? dot + 1 : name) != NULL)
            return dot != NULL ? name : arena_format(arena, "%s.%s", sections[i]->name, name);
    }
    return NULL;
}

/* `value`: what stands behind it on the command line; NULL: nothing. */
static bool unknown_option(const struct name_tables *tables, const char *unknown, const char *value,
                           bool takes_scenario, struct arena *arena, struct error *err) {
    error_set(err, "unknown option \"--%s\"", unknown);
    const char *field = takes_scenario ? field_called(arena, unknown) : NULL;
    if (field != NULL)
        return error_hint(err, "a field of the scenario is set with --set %s=%s", field,
                          value != NULL && value[0] != '-' ? value : "...");
    const char *near = nearest_name(unknown, tables->count + COMMON_COUNT, option_name, tables);
    return near != NULL ? error_hint(err, "did you mean \"--%s\"?", near)
                        : error_hint(err, "--help lists the options");
}

bool options_parse(const struct option *options, size_t option_count, bool takes_scenario,
                   void *values, struct common_options *common, int argc, char **argv,
                   struct arena *arena, struct arguments *arguments, struct error *err) {
    arguments->positional = arena_array(arena, const char *, argc + 1);
    arguments->count = 0;
    /* The options that were given: of two values one would be passed over. */
    const struct option **given = arena_array(arena, const struct option *, argc + 1);
    int64_t given_count = 0;
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (ended || word[0] != '-' || word[1] == '\0') {
            arguments->positional[arguments->count++] = word;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            ended = true;
            continue;
        }
        if (strcmp(word, "-h") == 0) word = "--help";
        /* -o FILE is the one short option with a value that everyone expects. */
        if (strcmp(word, "-o") == 0) word = "--output";
        if (word[1] != '-')
            return error_set(err, "unknown option \"%s\": options begin with two dashes", word);
        const char *name = word + 2, *equals = strchr(name, '=');
        size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
        void *into = values;
        const struct option *option = find(options, option_count, name, length);
        if (option == NULL) {
            option = find(common_table, COMMON_COUNT, name, length);
            into = common;
        }
        if (option == NULL) {
            struct name_tables tables = { options, option_count };
            char unknown[64];
            snprintf(unknown, sizeof unknown, "%.*s", (int)length, name);
            const char *value = equals != NULL ? equals + 1 : i + 1 < argc ? argv[i + 1] : NULL;
            return unknown_option(&tables, unknown, value, takes_scenario, arena, err);
        }
        const char *text = equals != NULL ? equals + 1 : NULL;
        if (option->type == OPTION_FLAG) {
            if (text != NULL) return error_set(err, "--%s takes no value", option->name);
        } else if (text == NULL) {
            if (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0)
                return error_set(err, "--%s needs a value: %s", option->name, option->metavar);
            text = argv[++i];
        }
        if (option->type != OPTION_FLAG && option->type != OPTION_LIST) {
            for (int64_t k = 0; k < given_count; k++)
                if (given[k] == option)
                    return error_set(err, "--%s is given twice, and takes one value", option->name);
            given[given_count++] = option;
        }
        if (!store(option, text, into, arena, err)) return false;
    }
    return true;
}

static void help_rows(const struct option *options, size_t count, FILE *out) {
    for (size_t i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", options[i].name,
                 options[i].metavar != NULL ? " " : "",
                 options[i].metavar != NULL ? options[i].metavar : "");
        fprintf(out, "  %-26s %s\n", left, options[i].help);
    }
}

void options_help(const struct option *options, size_t option_count, bool takes_scenario,
                  bool takes_plugins, FILE *out) {
    help_rows(options, option_count, out);
    const int first = takes_scenario ? 0 : takes_plugins ? COMMON_PLUGIN : COMMON_OF_SCENARIO;
    help_rows(common_table + first, (size_t)(COMMON_COUNT - first), out);
}
