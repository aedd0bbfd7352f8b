/* plan_schedule.c - chunks, sub-microbatches, bounds and action lists of a plan. */
#include "sim/cli/plan_schedule.h"

#include <stdio.h>
#include <string.h>
#include "sim/base/output_draft.h"
#include "sim/base/units.h"
#include "sim/study/action_plan.h"
#include "sim/study/search_progress.h"

/* ---- actions ---- */

static bool write_text(const char *text, const char *path, struct error *err) {
    struct output_draft draft;
    FILE *out = path != NULL ? output_draft_stream(&draft, path, err) : stdout;
    if (out == NULL) return false;
    const bool ok = fputs(text, out) >= 0 && fputc('\n', out) != EOF;
    if (!ok) error_output(err, path != NULL ? path : "stdout");
    return path != NULL ? output_draft_end(&draft, ok, err) : ok;
}

static bool emit_actions(const struct cli *cli, const struct action_plan *plan, const char *path,
                         struct error *err) {
    cJSON *json = action_plan_json(plan);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    bool ok = write_text(text, path, err);
    cJSON_free(text);
    if (ok && path != NULL) {
        int64_t count = 0;
        for (int64_t rank = 0; rank < plan->rank_count; rank++)
            count += plan->action_count[rank];
        fprintf(stderr, "%ld actions written to %s\n", (long)count, path);
        cli_print_output(cli, path, "actions", count);
    }
    return ok;
}

/* ---- what was chosen ---- */

static int64_t part_blocks(const struct job *job, int64_t part, int64_t *recomputing) {
    const struct model *model = job->scenario->model;
    int64_t blocks = 0;
    *recomputing = 0;
    for (int64_t i = job->plan.first_layer[part]; i < job->plan.first_layer[part + 1]; i++) {
        if (!layer_can_recompute(model, i)) continue;
        blocks++;
        *recomputing += job->plan.recompute[i] != RECOMPUTE_NONE;
    }
    return blocks;
}

static const char *module_name(const struct job *job, int64_t module) {
    const struct model *model = job->scenario->model;
    int64_t part = job->plan.modules[module].first_chunk * job->plan.stage_count;
    int64_t layer = job->plan.first_layer[part];
    return module_role_name((enum module_role)model->layers[layer].module_index);
}

static void print_plan(const struct job *job) {
    const struct job_plan *plan = &job->plan;
    printf("%s on %ld pipeline rank%s, %ld chunk%s on each\n", job->scenario->model->name,
           (long)plan->stage_count, plan->stage_count == 1 ? "" : "s", (long)plan->chunk_count,
           plan->chunk_count == 1 ? "" : "s");
    for (int64_t i = 0; i < plan->module_count; i++) {
        const struct plan_module *m = &plan->modules[i];
        printf("  %-8s %ld chunk%s a rank, ", module_name(job, i), (long)m->chunk_count,
               m->chunk_count == 1 ? "" : "s");
        if (m->sub_batch > 0)
            printf("sub-microbatches of at most %ld %s%s\n", (long)m->sub_batch,
                   m->clips ? "clip" : "image", m->sub_batch == 1 ? "" : "s");
        else
            puts("whole micro-batches");
    }
    puts("  blocks (of them recomputing in the static plan), rank by rank:");
    for (int64_t chunk = 0; chunk < plan->chunk_count; chunk++) {
        printf("    chunk %ld ", (long)chunk);
        for (int64_t rank = 0; rank < plan->stage_count; rank++) {
            int64_t recomputing,
                blocks = part_blocks(job, chunk * plan->stage_count + rank, &recomputing);
            printf("  %ld (%ld)", (long)blocks, (long)recomputing);
        }
        puts("");
    }
}

static void print_iteration(const struct action_plan *plan) {
    printf("iteration %ld, data-parallel rank %ld: %.3f s", (long)plan->iteration,
           (long)plan->dp_rank, seconds_from_ns(plan->makespan_ns));
    if (plan->bound_ns > 0)
        printf(", lower bound %.3f s (gap %.1f %%)", seconds_from_ns(plan->bound_ns),
               100.0 * (double)(plan->makespan_ns - plan->bound_ns) / (double)plan->bound_ns);
    puts("");
    if (plan->bound_ns == 0) return;
    double step_s = seconds_from_ns(plan->makespan_ns);
    printf("planned in %.3f s on one core: %s behind the iteration before it\n", plan->planner_s,
           plan->planner_s <= step_s ? "hides" : "does not hide");
}

static cJSON *plan_json(const struct job *job, const struct action_plan *plan) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "rank_count", (double)plan->rank_count);
    cJSON_AddNumberToObject(o, "chunk_count", (double)job->plan.chunk_count);
    cJSON *modules = cJSON_AddArrayToObject(o, "modules");
    for (int64_t i = 0; i < job->plan.module_count; i++) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "module", module_name(job, i));
        cJSON_AddNumberToObject(m, "chunk_count", (double)job->plan.modules[i].chunk_count);
        cJSON_AddNumberToObject(m,
                                job->plan.modules[i].clips ? "sub_batch_clips" : "sub_batch_images",
                                (double)job->plan.modules[i].sub_batch);
        cJSON_AddItemToArray(modules, m);
    }
    cJSON *blocks = cJSON_AddArrayToObject(o, "blocks_by_part");
    for (int64_t part = 0; part < job->plan.part_count; part++) {
        int64_t recomputing;
        cJSON_AddItemToArray(blocks,
                             cJSON_CreateNumber((double)part_blocks(job, part, &recomputing)));
    }
    cJSON_AddNumberToObject(o, "makespan_ms", (double)plan->makespan_ns * 1e-6);
    if (plan->bound_ns > 0) {
        cJSON_AddNumberToObject(o, "lower_bound_ms", (double)plan->bound_ns * 1e-6);
        cJSON_AddNumberToObject(o, "planner_ms", plan->planner_s * 1e3);
        cJSON_AddBoolToObject(o, "planner_hides",
                              plan->planner_s <= seconds_from_ns(plan->makespan_ns));
    }
    return o;
}

int plan_schedule_emit(struct cli *cli, const struct execution *e,
                       const struct plan_schedule_options *o) {
    struct error err = { 0 };
    const struct action_plan *plan =
        action_plan_make(cli->arena, e->job, o->iteration, o->rank, &err);
    bool ok = plan != NULL && emit_actions(cli, plan, o->output, &err);
    return ok ? EXIT_DONE : cli_error(&err);
}

int plan_schedule_show(struct cli *cli, const struct execution *e,
                       const struct plan_schedule_options *o) {
    struct error err = { 0 };
    const struct action_plan *plan =
        action_plan_make(cli->arena, e->job, o->iteration, o->rank, &err);
    if (plan == NULL) return cli_error(&err);
    if (cli->common.json) {
        cli_print_json(plan_json(e->job, plan));
    } else {
        print_plan(e->job);
        print_iteration(plan);
    }
    return EXIT_DONE;
}

/* ---- convergence ---- */

/* The best makespan of a method after so many schedules, in s; 0: it had none by then. */
static double best_after(const struct search_progress *p, const char *method, int64_t schedules) {
    double best_s = 0;
    for (int64_t i = 0; i < p->count; i++)
        if (strcmp(p->points[i].method, method) == 0 && p->points[i].schedule_count <= schedules)
            best_s = seconds_from_ns(p->points[i].makespan_ns);
    return best_s;
}

static void print_convergence(const struct search_progress *p, const char *scenario,
                              int64_t iteration) {
    printf("%s, iteration %ld: %ld classes, %ld segments, %ld passes; lower bound %.3f s\n",
           scenario, (long)iteration, (long)p->class_count, (long)p->segment_count,
           (long)p->task_count, seconds_from_ns(p->bound_ns));
    puts("(makespans before the memory step; wall times are of this machine)");
    printf("  %-12s %9s %9s %10s %11s  %s\n", "method", "schedules", "wall s", "best s",
           "over bound", "within 1 % of its best after");
    int64_t most = 1;
    for (int m = 0; m < SEARCH_METHOD_COUNT; m++) {
        const struct search_progress_method *x = &p->methods[m];
        const char *name = search_method_name((enum search_method)m);
        if (x->result.best_ns == SEGMENT_DEAD_END) {
            printf("  %-12s %9ld %9.3f  no schedule fits in memory\n", name,
                   (long)x->result.rollouts, x->result.wall_s);
            continue;
        }
        if (x->result.rollouts > most) most = x->result.rollouts;
        printf("  %-12s %9ld %9.3f %10.3f %9.2f %%  %ld schedules, %.3f s\n", name,
               (long)x->result.rollouts, x->result.wall_s, seconds_from_ns(x->result.best_ns),
               ((double)x->result.best_ns / (double)p->bound_ns - 1) * 100, (long)x->near_schedules,
               x->near_s);
    }
    printf("\n  best s after %9s", "schedules");
    for (int m = 0; m < SEARCH_METHOD_COUNT; m++)
        printf(" %12s", search_method_name((enum search_method)m));
    puts("");
    for (int64_t at = 1; at < 10 * most; at *= 10) {
        printf("               %9ld", (long)(at < most ? at : most));
        for (int m = 0; m < SEARCH_METHOD_COUNT; m++) {
            double best_s = best_after(p, search_method_name((enum search_method)m), at);
            if (best_s > 0)
                printf(" %12.3f", best_s);
            else
                printf(" %12s", "-");
        }
        puts("");
    }
}

static cJSON *convergence_json(const struct search_progress *p, int64_t iteration) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "iteration_index", (double)iteration);
    cJSON_AddNumberToObject(o, "class_count", (double)p->class_count);
    cJSON_AddNumberToObject(o, "segment_count", (double)p->segment_count);
    cJSON_AddNumberToObject(o, "pass_count", (double)p->task_count);
    cJSON_AddNumberToObject(o, "lower_bound_ms", (double)p->bound_ns * 1e-6);
    cJSON *methods = cJSON_AddArrayToObject(o, "methods");
    for (int m = 0; m < SEARCH_METHOD_COUNT; m++) {
        const struct search_progress_method *x = &p->methods[m];
        const char *name = search_method_name((enum search_method)m);
        cJSON *method = cJSON_CreateObject();
        cJSON_AddStringToObject(method, "method", name);
        cJSON_AddNumberToObject(method, "schedule_count", (double)x->result.rollouts);
        cJSON_AddNumberToObject(method, "wall_ms", x->result.wall_s * 1e3);
        if (x->result.best_ns != SEGMENT_DEAD_END) {
            cJSON_AddNumberToObject(method, "best_ms", (double)x->result.best_ns * 1e-6);
            cJSON_AddNumberToObject(method, "near_best_schedule_count", (double)x->near_schedules);
            cJSON_AddNumberToObject(method, "near_best_wall_ms", x->near_s * 1e3);
        }
        cJSON *points = cJSON_AddArrayToObject(method, "points");
        for (int64_t i = 0; i < p->count; i++) {
            if (strcmp(p->points[i].method, name) != 0) continue;
            cJSON *point = cJSON_CreateObject();
            cJSON_AddNumberToObject(point, "schedule_count", (double)p->points[i].schedule_count);
            cJSON_AddNumberToObject(point, "makespan_ms", (double)p->points[i].makespan_ns * 1e-6);
            cJSON_AddNumberToObject(point, "wall_ms", (double)p->points[i].wall_ns * 1e-6);
            cJSON_AddItemToArray(points, point);
        }
        cJSON_AddItemToArray(methods, method);
    }
    return o;
}

int plan_schedule_convergence(struct cli *cli, const struct execution *e,
                              const struct plan_schedule_options *o) {
    struct error err = { 0 };
    struct search_progress_options options = { .iteration = o->iteration, .rollouts = o->rollouts };
    struct search_progress progress;
    if (!search_progress_run(e->job, &options, cli->arena, &progress, &err)) return cli_error(&err);
    if (cli->common.json)
        cli_print_json(convergence_json(&progress, o->iteration));
    else
        print_convergence(&progress, e->scenario->name, o->iteration);
    return EXIT_DONE;
}
