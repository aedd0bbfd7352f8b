/* folder_names.h - the files of a folder that end alike, in an order that no file system chooses.
 *
 *     int64_t count;
 *     const char **names = folder_names(arena, "scenarios/stacks", ".json", &count);
 */
#ifndef BALLAST_SIM_BASE_FOLDER_NAMES_H
#define BALLAST_SIM_BASE_FOLDER_NAMES_H

#include <stdint.h>
#include "sim/base/arena.h"

/* Names without `suffix`, sorted by byte, NULL behind the last. Names that begin with a point are
 * not meant (of editors and file systems), nor is the suffix alone. NULL and 0: the folder cannot
 * be read; errno says why. */
const char **folder_names(struct arena *arena, const char *path, const char *suffix,
                          int64_t *count);

#endif
