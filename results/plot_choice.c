/* plot_choice.c - the figures of a run that its points need. */
#include "results/plot_choice.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* The name of a section of the resolved scenario. */
static const char *name_in(const cJSON *scenario, const char *section) {
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(scenario, section);
    const cJSON *name =
        cJSON_IsObject(node) ? cJSON_GetObjectItemCaseSensitive(node, "name") : node;
    return cJSON_IsString(name) ? name->valuestring : "?";
}

struct plot_choice plot_choice_of(const struct run_record *run, struct arena *arena) {
    struct plot_choice point = {
        .row_index = -1,
        .mfu_fraction = run->mfu_fraction,
        .name = run->scenario_name,
        .job = "",
        .gpu_count = run->gpu_count,
        .days = run->total_days,
        .gpu_days = run->gpu_days,
        .money_usd = run->money_usd,
        .band = band_of_stored(run->band_below_fraction, run->band_fraction),
        .left_out_fraction = run->left_out_fraction,
        /* One simulated for the picture has no status yet. */
        .done = (run->status == NULL || strcmp(run->status, "done") == 0) &&
                isfinite(run->step_time_mean_ms) && isfinite(run->total_days),
        .out_of_memory = run->verdict != NULL && strcmp(run->verdict, "out of memory") == 0,
    };
    cJSON *scenario = run->resolved_scenario != NULL ? cJSON_Parse(run->resolved_scenario) : NULL;
    if (scenario != NULL) {
        const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(scenario, "cluster"),
                    *hardware = cJSON_GetObjectItemCaseSensitive(cluster, "hardware");
        point.job = arena_format(arena, "%s on %s", name_in(scenario, "model"),
                                 name_in(scenario, "dataset"));
        if (cJSON_IsString(hardware)) point.kind = arena_text(arena, hardware->valuestring);
    }
    cJSON_Delete(scenario);
    return point;
}

bool plot_choice_is_partial(const struct plot_choice *points, int64_t count, int64_t index) {
    const struct plot_choice *point = &points[index];
    if (!record_leaves_out(point->left_out_fraction)) return false;
    for (int64_t i = 0; i < count; i++) {
        const struct plot_choice *other = &points[i];
        const double left = isfinite(other->left_out_fraction) ? other->left_out_fraction : 0;
        if (other->done && !other->out_of_memory && strcmp(other->job, point->job) == 0 &&
            record_leaves_out(point->left_out_fraction - left))
            return true;
    }
    return false;
}

static const char *joined(struct arena *arena, const char *text, const char *part) {
    if (part[0] == '\0') return text;
    return arena_format(arena, "%s%s%s", text, text[0] != '\0' ? ", " : "", part);
}

void plot_choice_differences(const struct plot_choice *const *points, int64_t count,
                             struct arena *arena, const char **texts, const char **shared) {
    *shared = "";
    for (int64_t i = 0; i < count; i++)
        texts[i] = points[i]->parts != NULL && count > 1 ? "" : points[i]->name;
    if (count < 2 || points[0]->parts == NULL) return;
    for (int64_t p = 0; p < points[0]->part_count; p++) {
        bool same = true;
        for (int64_t i = 1; i < count; i++)
            same = same && strcmp(points[i]->parts[p], points[0]->parts[p]) == 0;
        if (same) *shared = joined(arena, *shared, points[0]->parts[p]);
        for (int64_t i = 0; i < count && !same; i++)
            texts[i] = joined(arena, texts[i], points[i]->parts[p]);
    }
}

bool plot_choices_priced(const struct plot_choice *points, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (points[i].done && !isfinite(points[i].money_usd)) return false;
    return true;
}

double plot_choice_cost(const struct plot_choice *point, bool priced) {
    return priced ? point->money_usd : point->gpu_days;
}
