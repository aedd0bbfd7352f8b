/* file_place.h - names that are paths, and files beside the file that names them.
 *
 *     const char *place = file_beside(arena, "study/job.json", "model.json");
 */
#ifndef BALLAST_SIM_BASE_FILE_PLACE_H
#define BALLAST_SIM_BASE_FILE_PLACE_H

#include <stdbool.h>
#include "sim/base/arena.h"

/* "a.json", "b.csv.gz" and "c/d" are; "llama3.1-405b" is a name of something shipped. */
bool file_is_path(const char *name);

/* Folders are none. */
bool file_is_there(const char *path);

/* The file of a relative path in the folder of the file `from`; NULL: there is none, or it is no
 * such path. Either may be NULL. */
const char *file_beside(struct arena *arena, const char *from, const char *name);

#endif
