/* printed_figures.c - values of one table, row and quantity are readings of one printed number. */
#include "sim/study/reproduce/printed_figures.h"

#include <math.h>
#include <string.h>

/* How far off a printed time or speed-up may be; NaN: another quantity. */
static double limit_of(const struct reproduction_value *v) {
    if (isnan(v->relative_error) || v->calibrated_on) return NAN;
    if (strcmp(v->quantity, "gpu_days") == 0) return REPRODUCTION_TIME_LIMIT;
    const size_t length = strlen(v->quantity), ending = strlen("speedup");
    return length >= ending && strcmp(v->quantity + length - ending, "speedup") == 0
               ? REPRODUCTION_RATIO_LIMIT
               : NAN;
}

static bool same_number(const struct reproduction_value *a, const struct reproduction_value *b) {
    return strcmp(a->table, b->table) == 0 && strcmp(a->row, b->row) == 0 &&
           strcmp(a->quantity, b->quantity) == 0;
}

static void mark_main(struct reproduction *r, struct reproduction_value *v) {
    v->main = true;
    for (int64_t k = 0; k < r->value_count; k++) {
        const struct reproduction_value *other = &r->values[k];
        if (!same_number(v, other)) continue;
        v->reading_count++;
        if (other->rank < v->rank || (other->rank == v->rank && other < v)) v->main = false;
    }
}

/* The nearest of the readings, if it is near enough. */
static const struct reproduction_value *find_met(const struct reproduction *r,
                                                 const struct reproduction_value *main) {
    const struct reproduction_value *best = NULL;
    for (int64_t k = 0; k < r->value_count; k++) {
        const struct reproduction_value *v = &r->values[k];
        if (!same_number(main, v) || !(fabs(v->relative_error) <= limit_of(v))) continue;
        if (best == NULL || fabs(v->relative_error) < fabs(best->relative_error)) best = v;
    }
    return best;
}

static const char *find_cause(const struct paper_table *t, const char *figure) {
    for (int64_t k = 0; k < t->cause_count; k++)
        if (strcmp(t->causes[k].figure, figure) == 0) return t->causes[k].text;
    return NULL;
}

static void judge(struct reproduction *r, struct reproduction_summary *s,
                  const struct paper_table *t) {
    s->missed = arena_array(r->arena, const char *, s->rows + 1);
    s->misses = arena_array(r->arena, struct reproduction_miss, s->rows + 1);
    for (int64_t i = 0; i < r->value_count; i++) {
        struct reproduction_value *v = &r->values[i];
        if (strcmp(v->table, s->table) != 0) continue;
        const char *figure = arena_format(r->arena, "%s.%s", v->row, v->quantity);
        v->cause = find_cause(t, figure);
        if (!v->main || isnan(limit_of(v))) continue;
        const struct reproduction_value *met = find_met(r, v);
        if (met == NULL) s->missed[s->figures - s->figures_met] = figure;
        if (!(fabs(v->relative_error) <= limit_of(v)))
            s->misses[s->figures - s->figures_met_by_main] = (struct reproduction_miss){
                .figure = figure, .main = v, .met_by = met, .cause = v->cause
            };
        s->figures_met_by_main += fabs(v->relative_error) <= limit_of(v);
        s->figures_met += met != NULL;
        s->figures++;
    }
}

void printed_figures_judge(struct reproduction *r, const struct paper_table *const *tables) {
    for (int64_t i = 0; i < r->value_count; i++)
        mark_main(r, &r->values[i]);
    for (int64_t k = 0; k < r->summary_count; k++)
        judge(r, &r->summaries[k], tables[k]);
}
