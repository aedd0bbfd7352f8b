/* launch_flags.h - the options of a training framework that realise a job's layout and plan.
 *
 *     struct launch_flags f;
 *     launch_flags_make(FRAMEWORK_MEGATRON, job, arena, &f);
 *     if (f.refusal_count > 0) ...   // what no option can say, one sentence each
 *
 * Only what the plan decides: parallel sizes, batch, precision, cuts, recomputation, sharding,
 * optimizer, dropout. What changes the job's price and has no option is a note, or a refusal where
 * the job would not fit or be another without it.
 * Model shape, data, learning rate and paths stay with the user. Option names and their meaning are
 * those of Megatron-LM's and DeepSpeed's own argument parsers and documentation (docs/MODEL.md).
 */
#ifndef BALLAST_SIM_STUDY_LAUNCH_FLAGS_H
#define BALLAST_SIM_STUDY_LAUNCH_FLAGS_H

#include "sim/replay/job.h"
#include "sim/scenario/framework_limits.h"

enum { LAUNCH_FLAG_LIMIT = 40, LAUNCH_REFUSAL_LIMIT = 24 };

struct launch_flags {
    const char *framework;                /* "Megatron-LM" */
    const char *flags[LAUNCH_FLAG_LIMIT]; /* "--pipeline-model-parallel-size 4", one option each */
    int64_t flag_count;
    /* what the plan asks for and no option gives, one sentence each */
    const char *refusals[LAUNCH_REFUSAL_LIMIT];
    int64_t refusal_count;
    const char *notes[LAUNCH_REFUSAL_LIMIT]; /* what an option does not say but holds */
    int64_t note_count;
    /* DeepSpeed: its configuration file as JSON text, and arguments of PipelineModule; else NULL */
    const char *config, *pipeline_module;
};

/* Never FRAMEWORK_FSDP. What framework_limits() has stands first among the refusals. */
void launch_flags_make(enum framework framework, const struct job *job, struct arena *arena,
                       struct launch_flags *out);
/* The first refusal of the framework that the job's backend is; NULL: its options launch the plan,
 * or the backend has none that this file knows. */
const char *launch_needs_code(const struct job *job, struct arena *arena);

#endif
