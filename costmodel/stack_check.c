/* stack_check.c - words of a stack file that code elsewhere knows, held against what it knows: one
 * that nothing knows would price another framework, or never tell a run. */
#include "costmodel/stack_check.h"

#include <stdio.h>
#include <string.h>

/* The backends of sim/layout/backend.c, whose tests hold both lists alike. */
static const char *const known_backends[] = { "deepspeed", "fsdp", "megatron-deepspeed",
                                              "megatron-lm", NULL };
static const char *const known_recomputations[] = { "none", "selective", "full", NULL };

static bool is_one_of(const struct json *json, const char *key, const char *const *names,
                      struct error *err) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json_root(json), key);
    if (!cJSON_IsString(item)) return true;
    char known[128] = "one of: ";
    for (const char *const *name = names; *name != NULL; name++) {
        if (strcmp(item->valuestring, *name) == 0) return true;
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", name == names ? "" : ", ", *name);
    }
    return json_error(json, item, err, known, "got \"%.40s\"", item->valuestring);
}

/* "trl 1.8-1.12" or "trl 1.13-". */
static bool are_releases(const char *text) {
    const char *blank = strrchr(text, ' ');
    int major, minor, length = 0;
    if (blank == NULL || blank == text ||
        sscanf(blank, " %4d.%4d-%n", &major, &minor, &length) < 2 || length == 0)
        return false;
    const char *last = blank + length;
    return last[0] == '\0' ||
           (sscanf(last, "%4d.%4d%n", &major, &minor, &length) == 2 && last[length] == '\0');
}

/* "2025-08:" or "2025-08:2025-12". */
static bool are_months(const char *text) {
    int year, month, length = 0;
    if (sscanf(text, "%4d-%2d:%n", &year, &month, &length) < 2 || length != 8 || month < 1 ||
        month > 12)
        return false;
    const int first = 12 * year + month;
    if (text[length] == '\0') return true;
    text += length;
    return sscanf(text, "%4d-%2d%n", &year, &month, &length) == 2 && length == 7 &&
           text[length] == '\0' && month >= 1 && month <= 12 && 12 * year + month >= first;
}

bool stack_told_by_is_sound(const struct json *json, const cJSON *list, struct arena *arena,
                            struct error *err) {
    static const char release[] = "release:", dated[] = "dated:", both[] = " & ";
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        for (const char *part = item->valuestring; part != NULL;) {
            const char *next = strstr(part, both);
            const char *words =
                next == NULL ? part : arena_format(arena, "%.*s", (int)(next - part), part);
            if (strncmp(words, release, strlen(release)) == 0 &&
                !are_releases(words + strlen(release)))
                return json_error(json, item, err,
                                  "e.g. \"release:trl 1.8-1.12\" or \"release:trl 1.13-\"",
                                  "names no releases: \"%.60s\"", words);
            if (strncmp(words, dated, strlen(dated)) == 0 && !are_months(words + strlen(dated)))
                return json_error(json, item, err,
                                  "e.g. \"dated:2025-08:\" or \"dated:2025-08:2025-12\"",
                                  "names no months: \"%.60s\"", words);
            part = next == NULL ? NULL : next + strlen(both);
        }
    }
    return true;
}

/* DistributedDataParallel's 25 MB are about a layer. */
static bool buckets_or_not(const struct json *json, const struct stack *stack, struct error *err) {
    const cJSON *item =
        cJSON_GetObjectItemCaseSensitive(json_root(json), "reduce_bucket_parameters");
    return !cJSON_IsNumber(item) || item->valuedouble <= 0 || strcmp(stack->backend, "fsdp") != 0 ||
           json_error(json, item, err, "leave it out: a layer is a bucket",
                      "has no effect where the backend is fsdp");
}

bool stack_words_are_known(const struct json *json, const struct stack *stack, struct error *err) {
    return is_one_of(json, "backend", known_backends, err) &&
           is_one_of(json, "recompute", known_recomputations, err) &&
           buckets_or_not(json, stack, err);
}
