/* plugin.h - loads a shared library that adds policies (sim/ballast.h, "plug-ins").
 *
 * The rows it adds stay for the life of the process; plugin_load() is called before any other
 * thread starts. What the policies return is checked here, so that a wrong plug-in is an error with
 * its name, never a crash of the simulator. (A plug-in that writes where it may not is beyond
 * that.)
 */
#ifndef BALLAST_SIM_PLUGIN_H
#define BALLAST_SIM_PLUGIN_H

#include "sim/base/error.h"

bool plugin_load(const char *path, struct error *err);

#endif
