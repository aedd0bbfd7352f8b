/* measured_release.c - the year of a release, where a name has a version and no year.
 *
 * Kernels of one framework change from year to year, and stacks are told apart by it. By the
 * projects' release pages; a release late in a year counts for it.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_words.h"

/* Up to this release; beyond the last one nothing is said. */
struct release {
    long major, minor;
    int64_t year;
};

enum { RELEASE_MAX = 8 };
static const struct product {
    const char *name, *or_name; /* NULL: none */
    struct release last_of[RELEASE_MAX];
} products[] = {
    { "pytorch",
      "torch",
      { { 1, 7, 2020 },
        { 1, 10, 2021 },
        { 1, 13, 2022 },
        { 2, 1, 2023 },
        { 2, 5, 2024 },
        { 2, 9, 2025 },
        { 2, 99, 2026 } } },
    { "transformers",
      NULL,
      { { 4, 14, 2021 },
        { 4, 25, 2022 },
        { 4, 36, 2023 },
        { 4, 47, 2024 },
        { 4, 99, 2025 },
        { 5, 99, 2026 } } },
    { "deepspeed",
      NULL,
      { { 0, 5, 2021 }, { 0, 7, 2022 }, { 0, 12, 2023 }, { 0, 16, 2024 }, { 0, 18, 2025 } } },
    { "accelerate", NULL, { { 0, 15, 2022 }, { 0, 25, 2023 }, { 1, 2, 2024 }, { 1, 12, 2025 } } },
    { "trl", NULL, { { 0, 7, 2023 }, { 0, 13, 2024 }, { 0, 26, 2025 }, { 9, 99, 2026 } } },
    { "axolotl", NULL, { { 0, 6, 2024 }, { 0, 13, 2025 } } },
    { "lightning", NULL, { { 1, 8, 2022 }, { 2, 1, 2023 }, { 2, 5, 2024 }, { 2, 6, 2025 } } },
    { "torchtitan", NULL, { { 0, 0, 2024 }, { 0, 1, 2025 } } },
    { "colossalai", NULL, { { 0, 2, 2022 }, { 0, 3, 2023 }, { 0, 4, 2024 }, { 0, 5, 2025 } } },
    { "megatron-lm", "megatron", { { 1, 99, 2020 }, { 2, 99, 2021 }, { 3, 0, 2022 } } },
};
enum { PRODUCT_COUNT = sizeof products / sizeof products[0] };

static int64_t year_of(const struct product *product, long major, long minor) {
    for (int i = 0; i < RELEASE_MAX && product->last_of[i].year > 0; i++) {
        const struct release *last = &product->last_of[i];
        if (major < last->major || (major == last->major && minor <= last->minor))
            return last->year;
    }
    return 0;
}

struct version {
    long major, minor;
};

/* "4.36.2" behind the name that ends at `at`. */
static bool version_behind(const char *at, struct version *out) {
    at += strspn(at, " -_=");
    if (tolower((unsigned char)*at) == 'v') at++;
    char *end;
    if (!isdigit((unsigned char)*at)) return false;
    out->major = strtol(at, &end, 10);
    if (*end != '.' || !isdigit((unsigned char)end[1]) || end - at > 2) return false;
    const char *behind = end + 1 + strspn(end + 1, "0123456789");
    if (isalpha((unsigned char)*behind) && strncasecmp(behind, "rc", 2) != 0)
        return false; /* 2.7B */
    out->minor = strtol(end + 1, NULL, 10);
    return true;
}

/* The first version at or after *at; *at is then behind its name. */
static bool next_version(const char *text, const char *name, const char **at, struct version *out) {
    const size_t length = strlen(name);
    for (const char *found = strcasestr(*at, name); found != NULL;
         found = strcasestr(found + 1, name)) {
        const bool whole = found == text || !isalnum((unsigned char)found[-1]);
        *at = found + length;
        if (whole && version_behind(*at, out)) return true;
    }
    return false;
}

static int64_t year_of_name(const struct product *product, const char *name, const char *text) {
    struct version version;
    for (const char *at = text; next_version(text, name, &at, &version);) {
        const int64_t year = year_of(product, version.major, version.minor);
        if (year > 0) return year;
    }
    return 0;
}

static bool is_before(struct version left, struct version right) {
    return left.major < right.major || (left.major == right.major && left.minor < right.minor);
}

bool measured_release_says(struct arena *arena, const char *text, const char *releases) {
    const char *blank = strrchr(releases, ' ');
    if (blank == NULL) return false;
    const char *name = arena_format(arena, "%.*s", (int)(blank - releases), releases);
    const char *to = strchr(blank, '-');
    struct version first, last = { LONG_MAX, 0 }, said;
    if (to == NULL || !version_behind(blank, &first)) return false;
    if (to[1] != '\0' && !version_behind(to + 1, &last)) return false;
    const char *at = text;
    return next_version(text, name, &at, &said) && !is_before(said, first) &&
           !is_before(last, said);
}

/* Months since year 0 of "2025-10" or "2025-10-15", or of "October 2025"; 0: no date begins there. */
static long month_at(const char *at) {
    static const char *const names[] = { "january",   "february", "march",    "april",
                                         "may",       "june",     "july",     "august",
                                         "september", "october",  "november", "december" };
    long year, month;
    int length = 0;
    if (sscanf(at, "%4ld-%2ld%n", &year, &month, &length) == 2 && length == 7 &&
        !isdigit((unsigned char)at[7]) && year >= 2015 && year < 2045 && month >= 1 && month <= 12)
        return 12 * year + month;
    for (long i = 0; i < 12; i++) {
        const size_t name = strlen(names[i]);
        if (strncasecmp(at, names[i], name) == 0 && at[name] == ' ' &&
            sscanf(at + name, " %4ld%n", &year, &length) == 1 && length == 5 && year >= 2015 &&
            year < 2045 && !isalnum((unsigned char)at[name + 5]))
            return 12 * year + i + 1;
    }
    return 0;
}

bool measured_text_is_dated(const char *text, const char *months) {
    const long first = month_at(months);
    const char *to = strlen(months) > 7 && months[7] == ':' ? months + 8 : "";
    const long last = to[0] == '\0' ? LONG_MAX : month_at(to);
    for (const char *at = text; *at != '\0'; at++) {
        const long month = at == text || !isalnum((unsigned char)at[-1]) ? month_at(at) : 0;
        if (month > 0) return month >= first && month <= last;
    }
    return false;
}

static int64_t year_of_product(const struct product *product, const char *text) {
    const int64_t year = year_of_name(product, product->name, text);
    return year > 0 || product->or_name == NULL ? year
                                                : year_of_name(product, product->or_name, text);
}

int64_t measured_release_year(const char *text) {
    for (int i = 0; i < PRODUCT_COUNT; i++) {
        const int64_t year = year_of_product(&products[i], text);
        if (year > 0) return year;
    }
    return 0;
}

/* Whether a stack of that name runs on the product. */
static bool runs_on(const char *stack, const struct product *product) {
    static const char *const on_transformers[] = { "hf",   "huggingface", "trainer", "trl",
                                                   "peft", "accelerate",  "axolotl" };
    if (measured_text_says(stack, product->name) ||
        (product->or_name != NULL && measured_text_says(stack, product->or_name)))
        return true;
    bool found = false;
    for (size_t i = 0; i < sizeof on_transformers / sizeof on_transformers[0]; i++)
        found = found || measured_text_says(stack, on_transformers[i]);
    return found && strcmp(product->name, "transformers") == 0;
}

int64_t measured_release_year_under(const char *stack, const char *text) {
    for (int i = 0; i < PRODUCT_COUNT; i++) {
        if (!runs_on(stack, &products[i])) continue;
        const int64_t year = year_of_product(&products[i], text);
        if (year > 0) return year;
    }
    return 0;
}
