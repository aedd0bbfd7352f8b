/* plugin.c - dlopen, the plug-in's version, names and parameters. */
#include "sim/plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "sim/plugin_adapter.h"
#include "sim/policy/batching/batching.h"
#include "sim/policy/planner.h"

const struct field_table *plugin_parameter_table(const char *name, const char *help,
                                                 const struct ballast_parameter *parameters,
                                                 size_t count) {
    if (count == 0) return NULL;
    /* As long as the plug-in itself: for good. */
    struct field *fields = memory_alloc(sizeof *fields * count);
    struct field_table *table = memory_alloc(sizeof *table);
    for (size_t i = 0; i < count; i++) {
        char *fallback = memory_alloc(32);
        snprintf(fallback, 32, "%.17g", parameters[i].fallback);
        fields[i] = (struct field){ .name = parameters[i].name,
                                    .type = FIELD_DOUBLE,
                                    .offset = i * sizeof(double),
                                    .min = parameters[i].min,
                                    .max = parameters[i].max,
                                    .fallback = fallback,
                                    .unit = "",
                                    .help = parameters[i].help };
    }
    *table = (struct field_table){ name, help, fields, count, NULL };
    return table;
}

/* Names are what scenarios and command lines hold. */
static bool is_name(const char *text) {
    if (text == NULL || text[0] == '\0' || strlen(text) > 64) return false;
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(text);
}

static bool check_parameters(const char *policy, const struct ballast_parameter *parameters,
                             size_t count, struct error *err) {
    if (count > PLUGIN_PARAMETER_LIMIT || (count > 0 && parameters == NULL))
        return error_set(err, "policy \"%s\" may have at most %d parameters", policy,
                         PLUGIN_PARAMETER_LIMIT);
    for (size_t i = 0; i < count; i++) {
        const struct ballast_parameter *p = &parameters[i];
        if (!is_name(p->name) || p->help == NULL || strcmp(p->name, "name") == 0)
            return error_set(err, "parameter %zu of policy \"%s\" needs a name and a help text", i,
                             policy);
        if (!(p->min <= p->fallback && p->fallback <= p->max) || !isfinite(p->fallback))
            return error_set(err, "parameter \"%s\" of policy \"%s\": %g is not from %g to %g",
                             p->name, policy, p->fallback, p->min, p->max);
    }
    return true;
}

static bool check_row(const char *kind, const char *name, const char *help, bool has_function,
                      bool taken, struct error *err) {
    if (!is_name(name))
        return error_set(err, "a %s policy has no name of small letters, digits and dashes", kind);
    if (help == NULL || !has_function)
        return error_set(err, "%s policy \"%s\" needs a help text and its function", kind, name);
    if (taken) return error_set(err, "there is a %s policy \"%s\" already", kind, name);
    return true;
}

static bool is_known(bool found, const char *joint, const char *kind, const char *name,
                     struct error *err) {
    return found || error_set(err,
                              "joint policy \"%s\" presets the %s policy \"%s\", which is "
                              "not there",
                              joint, kind, name);
}

/* Its own plug-in's policies are there already. */
static bool check_preset(const struct ballast_joint *j, struct error *err) {
    return (j->batching == NULL || is_known(batching_policy_find(j->batching) != NULL, j->name,
                                            "batching", j->batching, err)) &&
           (j->partition == NULL || is_known(planner_find(PLANNER_PARTITION, j->partition) != NULL,
                                             j->name, "partition", j->partition, err)) &&
           (j->recompute == NULL || is_known(planner_find(PLANNER_RECOMPUTE, j->recompute) != NULL,
                                             j->name, "recompute", j->recompute, err)) &&
           (j->schedule == NULL || is_known(schedule_policy_find(j->schedule) != NULL, j->name,
                                            "schedule", j->schedule, err));
}

static bool no_slot(const char *kind, struct error *err) {
    return error_set(err, "more than %d %s policies of plug-ins", PLUGIN_SLOTS, kind);
}

static bool add_rows(const struct ballast_plugin *p, struct error *err) {
    for (size_t i = 0; i < p->batching_count; i++) {
        const struct ballast_batching *row = &p->batching[i];
        if (!check_row("batching", row->name, row->help, row->plan != NULL,
                       row->name != NULL && batching_policy_find(row->name) != NULL, err) ||
            !check_parameters(row->name, row->parameters, row->parameter_count, err))
            return false;
        if (!plugin_add_batching(row)) return no_slot("batching", err);
    }
    for (size_t i = 0; i < p->partition_count; i++) {
        const struct ballast_partition *row = &p->partitions[i];
        if (!check_row("partition", row->name, row->help, row->plan != NULL,
                       row->name != NULL && planner_find(PLANNER_PARTITION, row->name) != NULL,
                       err) ||
            !check_parameters(row->name, row->parameters, row->parameter_count, err))
            return false;
        if (!plugin_add_partition(row)) return no_slot("partition", err);
    }
    for (size_t i = 0; i < p->schedule_count; i++) {
        const struct ballast_schedule *row = &p->schedules[i];
        if (!check_row("schedule", row->name, row->help, row->order != NULL,
                       row->name != NULL && schedule_policy_find(row->name) != NULL, err))
            return false;
        if (!plugin_add_schedule(row)) return no_slot("schedule", err);
    }
    for (size_t i = 0; p->api_version >= 2 && i < p->joint_count; i++) {
        const struct ballast_joint *row = &p->joints[i];
        if (!check_row("joint", row->name, row->help, true,
                       row->name != NULL && planner_find(PLANNER_JOINT, row->name) != NULL, err) ||
            !check_parameters(row->name, row->parameters, row->parameter_count, err) ||
            !check_preset(row, err))
            return false;
        if (!plugin_add_joint(row)) return no_slot("joint", err);
    }
    return true;
}

/* Whether the file holds what its headers say: the loader maps what is missing of a copy that was
 * cut short, and dies when it touches it. What is no ELF file of this machine it refuses itself. */
static bool is_whole(FILE *file, off_t size) {
    ElfW(Ehdr) head;
    if (fread(&head, 1, sizeof head, file) != sizeof head) return size >= (off_t)sizeof head;
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr)))
        return true;
    if (fseeko(file, (off_t)head.e_phoff, SEEK_SET) != 0) return false;
    for (int i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) part;
        if (fread(&part, 1, sizeof part, file) != sizeof part) return false;
        if (part.p_type == PT_LOAD && (part.p_filesz > (uint64_t)size ||
                                       part.p_offset > (uint64_t)size - part.p_filesz))
            return false;
    }
    return true;
}

static bool check_file(const char *path, struct error *err) {
    struct stat status;
    if (stat(path, &status) != 0) return true; /* the loader says why */
    if (!S_ISREG(status.st_mode))
        return error_set(err, "cannot load plug-in %s: it is not a file", path);
    FILE *file = fopen(path, "rb");
    const bool whole = file == NULL || is_whole(file, status.st_size);
    if (file != NULL) fclose(file);
    return whole || error_set(err, "cannot load plug-in %s: the file is cut short", path);
}

bool plugin_load(const char *path, struct error *err) {
    if (!check_file(path, err)) return false;
    /* Without a '/' dlopen would search the system's folders. */
    char *local = memory_alloc(strlen(path) + 3);
    snprintf(local, strlen(path) + 3, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    void *library = dlopen(local, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        const size_t length = strlen(local); /* most reasons begin with the name */
        if (strncmp(reason, local, length) == 0 && strncmp(reason + length, ": ", 2) == 0)
            reason += length + 2;
        error_set(err, "cannot load plug-in %s: %s", path, reason);
        free(local);
        return error_hint(err, "docs/PLUGIN.md says how one is compiled");
    }
    free(local);
    const struct ballast_plugin *(*entry)(void);
    *(void **)&entry = dlsym(library, "ballast_plugin");
    const struct ballast_plugin *plugin = entry != NULL ? entry() : NULL;
    bool ok = true;
    if (plugin == NULL)
        ok = error_set(err, "%s is no plug-in: it exports no ballast_plugin()", path);
    else if (plugin->api_version < 1 || plugin->api_version > BALLAST_API_VERSION)
        ok = error_set(err,
                       "plug-in %s was built for version %d of the interface, this program has %d",
                       path, plugin->api_version, BALLAST_API_VERSION);
    else
        ok = add_rows(plugin, err) || error_context(err, "while loading plug-in %s", path);
    /* Rows may point into a library that was refused half way: it stays mapped. */
    return ok;
}
