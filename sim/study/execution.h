/* execution.h - one scenario from file to answer, and the answer as rows of the results database.
 *
 *     struct execution *e = execution_run(&options, path, &replay_options, err);
 *     e->replay->gpu_days
 *     execution_store(store, e, &provenance, err);
 *     execution_destroy(e);
 */
#ifndef BALLAST_SIM_STUDY_EXECUTION_H
#define BALLAST_SIM_STUDY_EXECUTION_H

#include "results/store.h"
#include "sim/replay/replay.h"

struct provenance {
    const char *command_line;
    const char *const *plugins;   /* files, NULL at the end; NULL: none */
    const char *const *overrides; /* of --set, the same */
    const char *const *removals;  /* of --unset, the same */
};

/* "0.1.0" and the commit with "+dirty" if the tree was changed. */
const char *execution_version(void);
const char *execution_commit(void);

struct execution {
    struct scenario *scenario; /* owned, as all below */
    struct job *job;
    struct replay *replay; /* NULL after execution_prepare() */
};

/* Loads, batches and plans, without replaying. NULL: failed. */
struct execution *execution_prepare(const struct scenario_options *options, const char *path,
                                    struct error *err);
struct execution *execution_run(const struct scenario_options *options, const char *path,
                                const struct replay_options *replay_options, struct error *err);
/* From a scenario document, which is taken over. replay_options NULL: without replaying. */
struct execution *execution_run_json(const struct scenario_options *options, struct json *json,
                                     const struct replay_options *replay_options,
                                     struct error *err);
/* Of a job that is ready; takes both over, also when it fails. options NULL: without replaying. */
struct execution *execution_of_job(struct scenario *scenario, struct job *job,
                                   const struct replay_options *options, struct error *err);
void execution_destroy(struct execution *execution);

/* One iteration of all data-parallel ranks as rows, for plots and traces; arrays in `arena`. */
struct timeline {
    struct span_record *spans;
    int64_t span_count;
    struct memory_point_record *memory;
    int64_t memory_count;
    int64_t capacity_bytes;
};
bool execution_timeline(const struct execution *execution, int64_t iteration, int64_t rank_limit,
                        enum fidelity fidelity, struct arena *arena, struct timeline *timeline,
                        struct error *err);

/* Operators of one layer of each kind, forward and backward, at the typical micro-batch, and what its
 * blocks wait for launches. */
struct price_record *execution_prices(const struct execution *execution, struct arena *arena,
                                      int64_t *count);

/* What each rule of the scenario and of its hardware file prices of the mean step, in words, NULL at
 * the end; rules of the hardware file that price nothing are left out. */
const char **execution_rule_notes(const struct execution *execution, struct arena *arena);

/* Texts of the record live in `arena`. */
void execution_record(const struct execution *execution, const struct provenance *provenance,
                      struct arena *arena, struct run_record *run);
/* All rows of the run (execution_rows.h). */
bool execution_store(struct store *store, const struct execution *execution,
                     const struct provenance *provenance, int64_t *run_id, struct error *err);
/* The replay's iterations as rows. */
struct iteration_record *execution_iterations(const struct execution *execution,
                                              struct arena *arena);

/* "vision 0-44, connector, embedding, language 0-1": the layers of a stage, in words. */
const char *execution_stage_layers(const struct execution *execution, int64_t stage,
                                   struct arena *arena);

#endif
