/* figure_sources.h - "sources" of a file names where each of its figures comes from. */
#ifndef BALLAST_COSTMODEL_FIGURE_SOURCES_H
#define BALLAST_COSTMODEL_FIGURE_SOURCES_H

#include <stdbool.h>
#include "sim/base/error.h"
#include "sim/base/json.h"

/* False, with all that have none, where a key of the document's root that `is_figure` says to be
 * one has no text under its name in `sources`. */
bool figure_sources_check(const struct json *json, const cJSON *sources,
                          bool (*is_figure)(const cJSON *item), struct error *err);

#endif
