/* measured_scenario.h - a row of measured runs as a scenario of its own.
 *
 * What a source leaves out takes the format's defaults (docs/VALIDATION.md), those of its software
 * stack, or the public shape of the model it names; each is noted. A row that cannot be simulated
 * is skipped with a reason from a fixed list, never guessed.
 *
 *     struct measured_scenario m;
 *     measured_scenario_make(&context, run, &m);
 *     if (m.skip == SKIP_NOTHING) simulate(m.document);      // the caller deletes the document
 */
#ifndef BALLAST_SIM_STUDY_MEASURED_SCENARIO_H
#define BALLAST_SIM_STUDY_MEASURED_SCENARIO_H

#include "costmodel/stack.h"
#include "costmodel/step_band.h"
#include "sim/study/execution.h"
#include "sim/study/measured/measured_run.h"

enum validation_skip {
    SKIP_NOTHING,
    SKIP_NO_MEASUREMENT, /* neither step time nor memory */
    SKIP_EXPERTS,
    SKIP_ARCHITECTURE,
    SKIP_MODALITY,
    SKIP_HARDWARE,
    SKIP_SHAPE,
    SKIP_EMPTY, /* another cell without which there is no step */
    SKIP_PRECISION,
    SKIP_ATTENTION,
    SKIP_RECOMPUTE,
    SKIP_LAYOUT,
    SKIP_BATCH,
    SKIP_SCHEDULE,
    SKIP_ADAPTER,
    SKIP_VALUE, /* a number that no run can have */
    SKIP_VISION,
    SKIP_FEED_FORWARD,
    SKIP_TWO_STREAMS, /* of a diffusion transformer */
    SKIP_ENCODER_IN_STEP,
    SKIP_OFFLOAD, /* of weights or optimizer state to host memory */
    VALIDATION_SKIP_COUNT
};
const char *validation_skip_name(enum validation_skip skip);

struct known_machine;
struct own_stack;

struct measured_context {
    struct arena *arena;
    const char *directory; /* scenarios/ */
    struct stack_list stacks;
    const struct own_stack **own_stacks;  /* measured_stack.c; files that rows named so far */
    const struct known_machine *machines; /* measured_machine.c; one without a name at the end */
    const struct step_bands *bands;       /* NULL: the folder has no bands.json */
    double unknown_stack_factor; /* on all prices of a run whose stack is not known: bands.json */
    const struct measured_runs
        *runs;                    /* that the rows are part of: blanks may be filled from others */
    struct scenario_cache *cache; /* for simulations that a blank asks for; NULL: none */
};
bool measured_context_make(struct measured_context *context, struct arena *arena,
                           const char *directory, struct error *err);

enum { MEASURED_NOTE_LIMIT = 48 }; /* a row of blanks has some 25 */
struct measured_scenario {
    enum validation_skip skip;
    const char *skip_detail; /* may be NULL */
    const struct stack *stack;
    const char *layout_stack;                   /* its name, a file of the user's, or "none" */
    bool exact_stack;                           /* the source's stack, not a relative of it */
    bool known_stack;                           /* its name says at least whose relative it is */
    bool half_known;                            /* or half of that, and notes or layout the rest */
    const char *hardware;                       /* name or path */
    const char *gpu;                            /* the name, also of a file of the user's */
    const char *notes[MEASURED_NOTE_LIMIT + 1]; /* what was filled in; NULL at the end */
    bool chosen_to_fit; /* what it keeps, runs again or shards: that it fits is no prediction */
    const char *row_id;
    cJSON *document; /* owned by the caller; NULL when skipped */
};
void measured_scenario_make(const struct measured_context *context, const struct measured_run *run,
                            struct measured_scenario *out);

/* One step of the document, batched and planned, and simulated besides. */
struct execution *measured_scenario_prepare(const struct scenario_options *options,
                                            const struct measured_scenario *scenario,
                                            struct error *err);
struct execution *measured_scenario_run(const struct scenario_options *options,
                                        const struct measured_scenario *scenario,
                                        struct error *err);

/* measured_names.c: whether a cell is a path to a file of the user's (.json). */
bool measured_is_file(const char *wanted);
/* measured_stack.c: the stack of a file of the user's, for all rows of the context; NULL, with the
 * reason. */
const struct stack *measured_own_stack(const struct measured_context *context, const char *path,
                                       const char **why_not);

/* measured_document.c: the recipe of the row's cell, or the only one that its notes name ("FP8 with
 * current scaling"); "" where neither says. */
const char *measured_fp8_recipe(const struct measured_run *run);

/* measured_document.c: of the matmuls, as factors of stacks tell it: all of 16 bits and more are
 * bf16. */
enum precision measured_precision(const struct measured_run *run);
/* What tells a published run by whatever id it is collected. */
struct stack_run measured_stack_run(const struct measured_run *run);

/* measured_shape.c: *run with the blanks of its model's shape filled in where that can be derived.
 * NULL, or the column that stays empty. */
const char *measured_shape_complete(const struct measured_context *context,
                                    struct measured_run *run, const char **notes,
                                    int64_t *note_count);

/* measured_document.c: as model_writes_text() of the model in a scenario made of a row. */
bool measured_writes_text(const cJSON *document);
/* As model_is_text_decoder(). */
bool measured_is_text(const cJSON *document);

#endif
