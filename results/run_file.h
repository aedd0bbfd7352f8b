/* run_file.h - whether two runs are of the same model, data, GPU or stack.
 *
 * Names of shipped files tell it. A path is kept as the scenario writes it, so two scenarios may
 * mean different files by one: of those the content decides, where both runs have it
 * (run_record's inputs, and the id of the GPU's profile).
 *
 *     if (!run_same_file(&a, &b, RUN_FILE_MODEL)) puts("different jobs");
 */
#ifndef BALLAST_RESULTS_RUN_FILE_H
#define BALLAST_RESULTS_RUN_FILE_H

#include <stdbool.h>
#include "results/record.h"

enum run_file { RUN_FILE_MODEL, RUN_FILE_DATA, RUN_FILE_HARDWARE, RUN_FILE_STACK };

/* Of a run without its scenario nobody knows: false. */
bool run_same_file(const struct run_record *a, const struct run_record *b, enum run_file which);

#endif
