/* fuzz_json.c - the JSON reader must take any bytes: an answer or one sentence, never a crash.
 *
 * An input is JSON text; a first line that begins with '!' is a --set assignment. What is accepted
 * is read through a field table, written, and read again: the two writings must be equal.
 *
 * Built with clang -fsanitize=fuzzer it is a libFuzzer target (FUZZ_WITH_LIBFUZZER). Elsewhere
 * main() mutates the seeds below for a bounded number of rounds and seconds:
 *
 *     fuzz_json [--rounds N] [--seconds S] [--only ROUND]
 *
 * Each round has a random stream of its own, so a failing round is repeated alone by --only.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "sim/base/arena.h"
#include "sim/base/field.h"
#include "sim/base/json.h"
#include "sim/base/random.h"

/* ---- one input ---- */

struct sample {
    bool sp;
    int64_t tp;
    double nic_GB_per_s, ratio;
    const char *name;
    int schedule;
    const cJSON *extra;
};

#define AT(member) offsetof(struct sample, member)

static const char *const schedules[] = { "gpipe", "1f1b", "interleaved", NULL };

static const struct field fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, "null", "", "what it is called", NULL },
    { "sp", FIELD_BOOL, AT(sp), 0, 0, "true", "", "sequence parallel", NULL },
    { "tp", FIELD_COUNT, AT(tp), 1, 64, "2", "GPUs", "tensor parallel degree", NULL },
    { "nic_GB_per_s", FIELD_DOUBLE, AT(nic_GB_per_s), 1e-3, 1e4, "50", "GB/s", "one-way", NULL },
    { "ratio", FIELD_DOUBLE, AT(ratio), 0, 0, "null", "", "any number", NULL },
    { "schedule", FIELD_CHOICE, AT(schedule), 0, 0, "\"1f1b\"", "", "order of tasks", schedules },
    { "extra", FIELD_NODE, AT(extra), 0, 0, "null", "", "anything", NULL },
};

static const struct field_table table = FIELD_TABLE("sample", "a table of each type", fields);

static void must(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "fuzz_json: %s\n", what);
    abort();
}

static void must_explain(const struct error *err) {
    must(memchr(err->text, '\0', sizeof err->text) != NULL, "an error text without end");
    must(err->text[0] != '\0', "a failure without a sentence");
}

/* Every node must be reachable by an error message. */
static void point_at_all(const struct json *json, const cJSON *node, int *budget) {
    struct error err = { 0 };
    char path[256];
    if (--*budget < 0) return;
    must(!json_error(json, node, &err, "hint", "here"), "json_error returned true");
    must_explain(&err);
    json_path(json, node, path, sizeof path);
    must(path[0] == '/', "a path without its slash");
    for (const cJSON *child = node->child; child != NULL; child = child->next)
        point_at_all(json, child, budget);
}

/* The values as text; NULL when the document is refused. The caller frees it with cJSON_free. */
static char *read_and_write(const struct json *json) {
    struct error err = { 0 };
    struct sample values;
    struct arena *arena = arena_create();
    char *text = NULL;
    if (field_table_read(&table, json, json_root(json), &values, arena, &err)) {
        cJSON *written = field_table_write(&table, &values);
        text = cJSON_PrintUnformatted(written);
        must(text != NULL, "values that cannot be printed");
        cJSON_Delete(written);
    } else {
        must_explain(&err);
    }
    arena_destroy(arena);
    return text;
}

static void check_round_trip(const struct json *json) {
    char *once = read_and_write(json);
    if (once == NULL) return;
    struct error err = { 0 };
    struct json *again = json_parse("again", once, strlen(once), &err);
    must(again != NULL, "what was written cannot be parsed");
    char *twice = read_and_write(again);
    must(twice != NULL, "what was written is refused");
    must(strcmp(once, twice) == 0, "what was written reads as something else");
    cJSON_free(twice);
    json_destroy(again);
    cJSON_free(once);
}

static void check_input(const char *text, size_t size) {
    struct error err = { 0 };
    char assignment[256] = "";
    if (size > 0 && text[0] == '!') {
        size_t length = 1;
        while (length < size && text[length] != '\n')
            length++;
        size_t kept = length - 1 < sizeof assignment - 1 ? length - 1 : sizeof assignment - 1;
        memcpy(assignment, text + 1, kept);
        assignment[kept] = '\0';
        text += length;
        size -= length;
    }
    struct json *json = json_parse("fuzz.json", text, size, &err);
    if (json == NULL) {
        must_explain(&err);
        must(err.located, "a syntax error without a place");
        return;
    }
    must(json_root(json) != NULL, "a document without a root");
    if (assignment[0] != '\0' && !json_override(json, assignment, &err)) must_explain(&err);
    int budget = 50; /* nodes: each costs a walk through the text */
    point_at_all(json, json_root(json), &budget);
    check_round_trip(json);
    json_destroy(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_input((const char *)data, size);
    return 0;
}

/* ---- without libFuzzer ---- */

#ifndef FUZZ_WITH_LIBFUZZER

static const char *const seeds[] = {
    "{ \"name\": \"x\", \"sp\": false, \"tp\": 8, \"nic_GB_per_s\": 0.5, \"ratio\": -1e300,\n"
    "  \"schedule\": \"gpipe\", \"extra\": [ 1, { \"a\": [] }, null, \"\\u00e9\\\\\\\"\" ] }",
    "!tp=4\n{ \"name\": \"x\" }",
    "!extra.0.b={\"c\":[1,2]}\n{ \"extra\": [ \"row\", { \"b\": 1 } ] }",
    "!extra.a.b=null\n{ \"extra\": {\n\t\"a\": \"text\" } }",
    "[[[[[[{\"a\":[[[[{\"b\":{}}]]]]}]]]]]]",
    "{ \"schedule\": \"1f1\", \"tp\": 1e3 }",
    "{ \"name\": \"a\\u0000b\\ud83d\\ude00\", \"ratio\": 0.1234567890123456789 }",
    "\xef\xbb\xbf{}",
};

static const char *const pieces[] = {
    "{",        "}",
    "[",        "]",
    ",",        ":",
    "\"",       "\\",
    "\n",       "\t",
    "\x01",     "!",
    "null",     "true",
    "1e999",    "-0",
    "\"tp\":1", "\"a\":",
    "\\u00",    "\\ud800",
    "\xff",     "\xef\xbb\xbf",
    "[[[[[[[[", "]]]]]]]]",
    "=",        ".",
    "extra.",
};

enum { TEXT_LIMIT = 2048, SEED_COUNT = sizeof seeds / sizeof seeds[0] };

struct text {
    char bytes[TEXT_LIMIT];
    size_t size;
};

static size_t below(struct random_mt *mt, size_t limit) {
    return limit > 0 ? random_mt_next(mt) % limit : 0;
}

static void insert(struct text *text, size_t place, const char *bytes, size_t size) {
    if (text->size + size > TEXT_LIMIT) return;
    memmove(text->bytes + place + size, text->bytes + place, text->size - place);
    memmove(text->bytes + place, bytes, size);
    text->size += size;
}

static void mutate(struct text *text, struct random_mt *mt) {
    size_t place = below(mt, text->size + 1);
    size_t length = below(mt, text->size - place + 1);
    if (length > 64) length = 64;
    char kept[64];
    memcpy(kept, text->bytes + place, length);
    switch (below(mt, 6)) {
    case 0: /* another byte */
        if (place < text->size) text->bytes[place] = (char)below(mt, 256);
        break;
    case 1: /* cut out */
        memmove(text->bytes + place, text->bytes + place + length, text->size - place - length);
        text->size -= length;
        break;
    case 2: /* copy elsewhere */
        insert(text, below(mt, text->size + 1), kept, length);
        break;
    case 3: /* cut short */
        text->size = place;
        break;
    default: { /* a piece of JSON */
        const char *piece = pieces[below(mt, sizeof pieces / sizeof pieces[0])];
        insert(text, place, piece, strlen(piece));
    }
    }
}

static void run_round(int64_t round) {
    struct random_mt mt;
    random_mt_seed(&mt, random_stream_seed(1, (uint64_t)round));
    struct text text = { .size = 0 };
    const char *seed = seeds[round % SEED_COUNT];
    insert(&text, 0, seed, strlen(seed));
    if (round >= SEED_COUNT) /* first the seeds as they are */
        for (size_t left = 1 + below(&mt, 8); left > 0; left--)
            mutate(&text, &mt);
    check_input(text.bytes, text.size);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The child works, the parent knows the round whatever ends the child. */
static int run_rounds(int64_t rounds, double seconds) {
    int64_t *round =
        mmap(NULL, sizeof *round, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (round == MAP_FAILED) {
        perror("fuzz_json: mmap");
        return 1;
    }
    double end_s = now_s() + seconds;
    pid_t child = fork();
    if (child == 0) {
        for (; *round < rounds && now_s() < end_s; ++*round)
            run_round(*round);
        exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fuzz_json: fork");
        return 1;
    }
    if (status != 0) {
        printf("round %lld fails; repeat it with: fuzz_json --only %lld\n", (long long)*round,
               (long long)*round);
        return 1;
    }
    printf("%lld of %lld rounds in %.1f s\n", (long long)*round, (long long)rounds,
           seconds - (end_s - now_s()));
    return 0;
}

int main(int argc, char **argv) {
    int64_t rounds = 200000, only = -1;
    double seconds = 20;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value != NULL && strcmp(argv[i], "--rounds") == 0) {
            rounds = atoll(value);
        } else if (value != NULL && strcmp(argv[i], "--seconds") == 0) {
            seconds = atof(value);
        } else if (value != NULL && strcmp(argv[i], "--only") == 0) {
            only = atoll(value);
        } else {
            fprintf(stderr, "usage: fuzz_json [--rounds N] [--seconds S] [--only ROUND]\n");
            return 2;
        }
        i++;
    }
    if (only < 0) return run_rounds(rounds, seconds);
    run_round(only);
    return 0;
}

#endif
