/* file_read.h - a whole file, or what a pipe gives, in memory. */
#ifndef BALLAST_SIM_BASE_FILE_READ_H
#define BALLAST_SIM_BASE_FILE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include "sim/base/error.h"

/* Reads a whole file, gunzipping it where it is compressed. The caller frees *text. */
bool file_read(const char *path, char **text, size_t *size, struct error *err);

#endif
