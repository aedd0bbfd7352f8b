/* reproduction.c - which tables, which runs they need, and what comes out beside what they
 * print. */
#include "sim/study/reproduce/reproduction.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/field.h"
#include "sim/base/folder_names.h"
#include "sim/study/reproduce/printed_figures.h"
#include "sim/study/reproduce/run_book.h"

/* Where the answers of a value are: its run and slot, and those it stands beside. */
struct asked {
    int64_t run, slot, against_run, against_slot;
};

struct context {
    const struct reproduction_options *options;
    struct arena *arena;
    struct error *err;
    struct reproduction *out;
    const struct paper_table **tables;
    int64_t table_count;
    struct run_book *book;
    struct asked *asked; /* by value, in order of tables, rows and values */
    int64_t **drawn; /* by table: slots of [run * count + point], then those of the right axis */
};

/* ---- asking ---- */

static void ask(struct context *c) {
    int64_t count = 0, at = 0;
    for (int64_t t = 0; t < c->table_count; t++)
        for (int64_t r = 0; r < c->tables[t]->row_count; r++)
            count += c->tables[t]->rows[r].value_count;
    c->asked = arena_array(c->arena, struct asked, count + 1);
    for (int64_t t = 0; t < c->table_count; t++)
        for (int64_t r = 0; r < c->tables[t]->row_count; r++) {
            const struct paper_row *row = &c->tables[t]->rows[r];
            int64_t run = run_book_add(c->book, &row->run);
            for (int64_t v = 0; v < row->value_count; v++) {
                const struct paper_value *value = &row->values[v];
                struct asked *a = &c->asked[at++];
                a->run = run;
                a->slot = run_book_ask(c->book, a->run, value->quantity, value->index);
                if (!quantity_compares(value->quantity)) continue;
                a->against_run = run_book_add(c->book, &row->against);
                a->against_slot =
                    run_book_ask(c->book, a->against_run, value->quantity, value->index);
            }
        }
    c->out->values = arena_array(c->arena, struct reproduction_value, count + 1);
}

/* Every point of a picture is a question; the run's number is asked for again when answers are
 * taken. */
static void ask_pictures(struct context *c) {
    c->drawn = arena_array(c->arena, int64_t *, c->table_count + 1);
    for (int64_t t = 0; t < c->table_count; t++) {
        const struct paper_picture *p = c->tables[t]->picture;
        if (p == NULL) continue;
        int64_t at = 0;
        c->drawn[t] = arena_array(c->arena, int64_t, (p->run_count + 1) * p->count);
        for (int64_t r = 0; r < p->run_count; r++) {
            const int64_t run = run_book_add(c->book, &p->runs[r].run);
            for (int64_t i = 0; i < p->count; i++)
                c->drawn[t][at++] = run_book_ask(c->book, run, p->quantity, i);
        }
        for (int64_t i = 0; p->right != NULL && p->run_count > 0 && i < p->count; i++)
            c->drawn[t][at++] =
                run_book_ask(c->book, run_book_add(c->book, &p->runs[0].run), p->right, i);
    }
}

static void take_pictures(struct context *c) {
    struct reproduction *out = c->out;
    out->pictures = arena_array(c->arena, struct reproduction_picture, c->table_count + 1);
    for (int64_t t = 0; t < c->table_count; t++) {
        const struct paper_picture *p = c->tables[t]->picture;
        if (p == NULL) continue;
        const int64_t points = p->run_count * p->count;
        struct reproduction_picture *picture = &out->pictures[out->picture_count++];
        *picture = (struct reproduction_picture){ .table = c->tables[t]->id, .picture = p };
        picture->values = arena_array(c->arena, double, points + 1);
        for (int64_t k = 0; k < points; k++)
            picture->values[k] =
                p->scale * run_book_value(c->book,
                                          run_book_add(c->book, &p->runs[k / p->count].run),
                                          c->drawn[t][k]);
        if (p->right == NULL || p->run_count == 0) continue;
        picture->right = arena_array(c->arena, double, p->count);
        for (int64_t i = 0; i < p->count; i++)
            picture->right[i] = run_book_value(c->book, run_book_add(c->book, &p->runs[0].run),
                                               c->drawn[t][points + i]);
    }
}

/* ---- answers ---- */

static int64_t list_length(const struct paper_input *const *list) {
    int64_t count = 0;
    while (list[count] != NULL)
        count++;
    return count;
}

static const struct paper_input *const *join_inputs(struct context *c, const struct paper_table *t,
                                                    const struct paper_row *row) {
    int64_t common = list_length(t->inputs), own = list_length(row->inputs);
    const struct paper_input **all =
        arena_array(c->arena, const struct paper_input *, common + own + 1);
    for (int64_t i = 0; i < common; i++)
        all[i] = t->inputs[i];
    for (int64_t i = 0; i < own; i++)
        all[common + i] = row->inputs[i];
    return all;
}

/* What was not stated: of the paper's inputs, then of the scenario. */
static const char *const *list_assumptions(struct context *c,
                                           const struct paper_input *const *inputs,
                                           const char *const *own) {
    int64_t count = 0, at = 0;
    while (own[count] != NULL)
        count++;
    const char **list = arena_array(c->arena, const char *, list_length(inputs) + count + 1);
    for (int64_t i = 0; inputs[i] != NULL; i++) {
        if (inputs[i]->status == INPUT_STATED) continue;
        const char *mark = inputs[i]->status == INPUT_FITTED ? "fitted: " : "";
        list[at++] = inputs[i]->name != NULL ? arena_format(c->arena, "%s%s: %s", mark,
                                                            inputs[i]->name, inputs[i]->value)
                                             : inputs[i]->value;
    }
    for (int64_t i = 0; i < count; i++)
        list[at++] = arena_text(c->arena, own[i]);
    return list;
}

/* "scenarios/papers/...": the same on every machine. */
static const char *shown_path(struct context *c, const char *path) {
    const char *directory = c->options->scenario->directory;
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0
               ? arena_format(c->arena, "scenarios%s", path + length)
               : path;
}

static bool store_value(struct context *c, const struct reproduction_value *v,
                        const struct paper_table *t, const struct paper_row *row, int64_t run) {
    struct reproduction_record record = {
        .tool_version = execution_version(),
        .source_commit = execution_commit(),
        .paper = t->paper,
        .table_name = t->table,
        .row_name = row->reading != NULL ? arena_format(c->arena, "%s (%s)", row->row, row->reading)
                                         : row->row,
        .quantity = v->quantity,
        .unit = v->unit,
        .paper_value = v->paper,
        .simulated_value = v->measured ? NAN : v->simulated,
        .measured_value = v->measured ? v->simulated : NAN,
        .role = v->calibrated_on ? "fitted" : "prediction",
        .provenance = run_book_data_status(c->book, run),
        .scenario_file = v->scenario_file,
        .note = v->note,
        .run_id = run_book_run_id(c->book, run),
    };
    return store_add_reproductions(c->options->store, &record, 1, c->err);
}

/* Appends a sentence to a note that may be missing. */
static const char *add_note(struct context *c, const char *note, const char *more) {
    return note != NULL ? arena_format(c->arena, "%s; %s", note, more) : more;
}

/* The row's own note, and that its run, or the one that it is compared with, would not have run. */
static const char *note_of(struct context *c, const struct paper_row *row,
                           const struct paper_value *value, const struct asked *a) {
    const char *note = value->note != NULL ? value->note : row->note;
    const struct quantity *q = value->quantity;
    if (q->absent != NULL && isnan(run_book_value(c->book, a->run, a->slot)))
        return add_note(c, note, q->absent);
    int64_t stage = run_book_overflowing_stage(c->book, a->run);
    if (stage >= 0 && (q->timed || quantity_compares(q)))
        note = add_note(
            c, note, arena_format(c->arena, "out of memory on stage %lld", (long long)stage + 1));
    if (!quantity_compares(q)) return note;
    stage = run_book_overflowing_stage(c->book, a->against_run);
    if (stage < 0) return note;
    return add_note(c, note,
                    arena_format(c->arena, "compared with a run out of memory on stage %lld",
                                 (long long)stage + 1));
}

/* What compares two runs has none: most of their error is one. */
static struct band band_of(const struct quantity *q, struct band of_time) {
    if (!q->timed || quantity_compares(q)) return band_even(NAN);
    return q->rate ? band_of_inverse(of_time) : of_time;
}

static bool take_value(struct context *c, const struct paper_table *t, const struct paper_row *row,
                       const struct paper_value *value, const struct asked *a) {
    const struct quantity *q = value->quantity;
    struct reproduction_value *v = &c->out->values[c->out->value_count++];
    const struct paper_input *const *inputs = join_inputs(c, t, row);
    double own = run_book_value(c->book, a->run, a->slot), against = 0;
    if (quantity_compares(q)) against = run_book_value(c->book, a->against_run, a->against_slot);
    *v = (struct reproduction_value){
        .table = t->id,
        .row = row->row,
        .reading = row->reading,
        .rank = row->rank,
        .quantity = value->name,
        .unit = q->unit,
        .paper = value->paper,
        .simulated = quantity_compare(q, own, against),
        .measured = q->measured,
        .band = band_of(q, run_book_band(c->book, a->run)),
        .calibrated_on = value->calibrated_on,
        .run = row->run,
        .scenario_file = shown_path(c, row->run.path),
        .set = row->run.set,
        .inputs = inputs,
        .assumptions = list_assumptions(c, inputs, run_book_assumptions(c->book, a->run)),
        .note = note_of(c, row, value, a),
    };
    v->id =
        row->reading != NULL
            ? arena_format(c->arena, "%s.%s.%s.%s", v->table, row->row, v->quantity, row->reading)
            : arena_format(c->arena, "%s.%s.%s", v->table, row->row, v->quantity);
    v->relative_error = v->paper != 0 && !q->measured ? (v->simulated - v->paper) / v->paper : NAN;
    return c->options->store == NULL || store_value(c, v, t, row, a->run);
}

static bool take_answers(struct context *c) {
    int64_t at = 0;
    for (int64_t k = 0; k < c->table_count; k++) {
        const struct paper_table *t = c->tables[k];
        c->out->summaries[c->out->summary_count++] =
            (struct reproduction_summary){ .table = t->id,
                                           .source = t->source,
                                           .note = t->note,
                                           .rule = t->rule,
                                           .inputs = t->inputs };
        for (int64_t r = 0; r < t->row_count; r++)
            for (int64_t v = 0; v < t->rows[r].value_count; v++)
                if (!take_value(c, t, &t->rows[r], &t->rows[r].values[v], &c->asked[at++]))
                    return false;
    }
    return true;
}

/* ---- which tables ---- */

/* A table file is <paper>/<table>.table.json; scenario files lie beside it. */
#define TABLE_SUFFIX ".table.json"

static bool wanted(const char *id, const char *paper, const char *const *selectors, int64_t count,
                   bool *used) {
    bool found = count == 0;
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(selectors[i], id) != 0 && strcmp(selectors[i], paper) != 0) continue;
        used[i] = true;
        found = true;
    }
    return found;
}

/* Reads every selected table; names that select none are mistakes. */
static bool read_selected(struct context *c) {
    const char *const *selectors = c->options->selectors;
    int64_t selector_count = c->options->selector_count;
    const char *papers_path = arena_format(c->arena, "%s/papers", c->options->scenario->directory);
    int64_t paper_count, known_count = 0, chosen_count = 0;
    const char **papers = folder_names(c->arena, papers_path, "", &paper_count);
    bool *used = arena_array(c->arena, bool, selector_count + 1);
    enum { TABLE_LIMIT = 256 };
    const char **known = arena_array(c->arena, const char *, TABLE_LIMIT + 1);
    struct {
        const char *directory, *file;
    } chosen[TABLE_LIMIT];
    for (int64_t p = 0; p < paper_count; p++) {
        const char *directory = arena_format(c->arena, "%s/%s", papers_path, papers[p]);
        int64_t table_count;
        const char **tables = folder_names(c->arena, directory, TABLE_SUFFIX, &table_count);
        for (int64_t t = 0; t < table_count && known_count < TABLE_LIMIT; t++) {
            const char *id = arena_format(c->arena, "%s.%s", papers[p], tables[t]);
            known[known_count++] = id;
            if (!wanted(id, papers[p], selectors, selector_count, used)) continue;
            chosen[chosen_count].directory = directory;
            chosen[chosen_count++].file = arena_format(c->arena, "%s" TABLE_SUFFIX, tables[t]);
        }
    }
    for (int64_t i = 0; i < selector_count; i++) {
        if (used[i]) continue;
        const char *near = nearest_in_list(selectors[i], known);
        error_set(c->err, "unknown table \"%s\"", selectors[i]);
        if (near != NULL) return error_hint(c->err, "did you mean \"%s\"?", near);
        const char *list = "";
        for (int64_t k = 0; k < known_count; k++)
            list = arena_format(c->arena, "%s%s%s", list, k > 0 ? ", " : "", known[k]);
        return error_hint(c->err, "the tables are: %s", list);
    }
    c->tables = arena_array(c->arena, const struct paper_table *, chosen_count + 1);
    for (int64_t i = 0; i < chosen_count; i++) {
        const struct paper_table *t =
            paper_table_read(c->arena, chosen[i].directory, chosen[i].file, c->err);
        if (t == NULL)
            return error_context(c->err, "while reproducing %s/%s", chosen[i].directory,
                                 chosen[i].file);
        c->tables[c->table_count++] = t;
    }
    c->out->summaries = arena_array(c->arena, struct reproduction_summary, chosen_count + 1);
    return true;
}

static void summarise(struct reproduction *r) {
    int64_t *counted = arena_array(r->arena, int64_t, r->summary_count + 1);
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        struct reproduction_summary *s = NULL;
        for (int64_t k = 0; k < r->summary_count && s == NULL; k++)
            if (strcmp(r->summaries[k].table, v->table) == 0) s = &r->summaries[k];
        ballast_check(s != NULL);
        s->rows++;
        s->rows_calibrated_on += v->calibrated_on;
        s->rows_without_relative_error += isnan(v->relative_error);
        if (v->calibrated_on || isnan(v->relative_error)) continue;
        counted[s - r->summaries]++;
        s->mean_abs_relative_error += fabs(v->relative_error);
        if (fabs(v->relative_error) > fabs(s->worst_relative_error))
            s->worst_relative_error = v->relative_error;
    }
    for (int64_t k = 0; k < r->summary_count; k++) {
        if (counted[k] > 0) r->summaries[k].mean_abs_relative_error /= (double)counted[k];
    }
}

struct reproduction *reproduction_run(const struct reproduction_options *options,
                                      struct error *err) {
    struct arena *arena = arena_create();
    struct reproduction *r = arena_new(arena, struct reproduction);
    r->arena = arena;
    struct context c = { .options = options,
                         .arena = arena,
                         .err = err,
                         .out = r,
                         .book = run_book_create(arena, options->scenario) };
    struct run_book_options book = { .store = options->store,
                                     .provenance = options->provenance,
                                     .progress = options->progress,
                                     .progress_context = options->progress_context };
    bool ok = read_selected(&c);
    if (ok) {
        ask(&c);
        if (options->pictures) ask_pictures(&c);
        ok = run_book_simulate(c.book, &book, err) ? take_answers(&c)
                                                   : error_context(err, "while reproducing");
    }
    if (ok && options->pictures) take_pictures(&c);
    run_book_destroy(c.book);
    if (!ok) {
        reproduction_destroy(r);
        return NULL;
    }
    summarise(r);
    printed_figures_judge(r, c.tables);
    return r;
}

void reproduction_destroy(struct reproduction *r) {
    if (r != NULL) arena_destroy(r->arena);
}
