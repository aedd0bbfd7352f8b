/* run_inputs.h - what a run rests on besides its resolved scenario: the files that were read, with
 * their hashes, and what the command line set. For provenance: who has the same files gets the same
 * answer.
 *
 *     run.inputs = run_inputs_text(execution, provenance, arena);
 */
#ifndef BALLAST_SIM_STUDY_RUN_INPUTS_H
#define BALLAST_SIM_STUDY_RUN_INPUTS_H

#include "sim/study/execution.h"

/* A JSON array of objects with "kind" and "name" each: scenario, model (each file of it), cluster,
 * hardware, curves, fabric, bands, stack (also one whose factors it borrows) and plug-in with the
 * "sha256" of the file (null: it cannot be read any more; those of the scenarios folder go by their
 * path in it, others by their whole path), data set with the "content" that run_inputs_data()
 * gives, set with the "value" of --set, unset with the path of --unset. */
const char *run_inputs_text(const struct execution *execution, const struct provenance *provenance,
                            struct arena *arena);

/* "1267712 samples 0123456789abcdef": a hash of the samples, wherever they come from. */
const char *run_inputs_data(struct arena *arena, const struct dataset *dataset);

#endif
