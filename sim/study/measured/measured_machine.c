/* measured_machine.c - the network of a run on a machine that is known by name.
 *
 * What a source leaves unsaid, and what no column has (how much of the NICs' rate its collectives
 * reach), comes from the machine's file in scenarios/clusters.
 */
#include <math.h>
#include <string.h>
#include "sim/base/folder_names.h"
#include "sim/study/measured/measured_parts.h"
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_words.h"

bool measured_machines_load(struct measured_context *context, struct error *err) {
    int64_t count, known = 0;
    struct arena *arena = context->arena;
    const char **names = folder_names(arena, arena_format(arena, "%s/clusters", context->directory),
                                      ".json", &count);
    struct known_machine *machines = arena_array(arena, struct known_machine, count + 1);
    for (int64_t i = 0; i < count; i++) {
        struct cluster_preset *preset = &machines[known].preset;
        if (!cluster_preset_read(arena, context->directory, names[i], preset, err)) return false;
        if (preset->words[0] != '\0') machines[known++].name = names[i];
    }
    machines[known].name = NULL;
    context->machines = machines;
    return true;
}

/* `words` has semicolons between. */
static bool says_one(struct arena *arena, const char *text, const char *words) {
    while (*words != '\0') {
        const size_t length = strcspn(words, ";");
        if (measured_text_says(text, arena_format(arena, "%.*s", (int)length, words))) return true;
        words += length;
        words += strspn(words, "; ");
    }
    return false;
}

/* A run whose NICs have another rate is not on this machine, whatever its notes compare it with. */
static bool has_its_rate(const struct measured_run *r, const struct cluster_preset *preset) {
    const double own = preset->network.nic_bytes_per_s_per_gpu * 8 / 1e9;
    return !(fabs(r->nic_Gbit_per_s_per_gpu / own - 1) > 0.01); /* NaN where either is silent */
}

const struct known_machine *measured_known_machine(const struct measured_row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    const char *text = arena_format(arena, "%s; %s; %s", r->source, r->notes, r->hardware);
    for (const struct known_machine *m = row->context->machines; m->name != NULL; m++)
        if (strcmp(m->preset.hardware, row->out->gpu) == 0 &&
            (r->gpus_per_node < 1 || r->gpus_per_node == m->preset.network.gpus_per_node) &&
            has_its_rate(r, &m->preset) && says_one(arena, text, m->preset.words))
            return m;
    return NULL;
}

/* No part of what the source says is another than the machine's GPU has. */
static bool goes_with(struct arena *arena, const char *wanted, const char *gpu) {
    static const char *const kinds[] = { "pcie", "sxm", "nvl" };
    const struct measured_parts said = measured_parts_of(arena, wanted),
                                own = measured_parts_of(arena, gpu);
    if (!measured_parts_have(&said, own.text[0])) return false;
    for (int64_t i = 0; i < said.count; i++) {
        const char *part = said.text[i];
        const size_t digits = strspn(part, "0123456789");
        bool tells = digits > 0 && strcmp(part + digits, "g") == 0;
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            tells = tells || strcmp(part, kinds[k]) == 0;
        if (tells && !measured_parts_have(&own, part)) return false;
    }
    return true;
}

const char *measured_machines_part(struct measured_row *row, const char *usual) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    const char *text = arena_format(arena, "%s; %s", r->source, r->notes);
    const struct known_machine *other = NULL;
    for (const struct known_machine *m = row->context->machines; m->name != NULL; m++) {
        const char *gpu = m->preset.hardware;
        if (!says_one(arena, text, m->preset.words)) continue;
        if (strcmp(gpu, usual) == 0) return usual;
        const size_t family = strcspn(gpu, "-");
        if (strncmp(gpu, usual, family) != 0 || usual[family] != '-') continue;
        if (goes_with(arena, r->hardware, gpu)) return gpu;
        if (other == NULL) other = m;
    }
    if (other != NULL)
        measured_row_note(row, "hardware: %s is not the %s of %s, which the row names", r->hardware,
                          other->preset.hardware, other->name);
    return usual;
}

/* A count, or what is said of any machine. */
static bool is_plain(const char *part) {
    static const char *const plain[] = { "aws",       "gcp",  "azure", "google",
                                         "cloud",     "node", "nodes", "instance",
                                         "instances", "x",    "of" };
    const size_t digits = strspn(part, "0123456789");
    if (digits > 0 && (part[digits] == '\0' || strcmp(part + digits, "x") == 0)) return true;
    for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
        if (strcmp(part, plain[k]) == 0) return true;
    return false;
}

/* What is counted is the machine, not a GPU that stands in it: "4x p5.48xlarge", not "8x H100
 * (CoreWeave)". */
static bool counts_machines(struct arena *arena, const char *hardware,
                            const struct cluster_preset *preset) {
    const struct measured_parts parts = measured_parts_of(arena, hardware),
                                known = measured_parts_of(arena, preset->words),
                                gpu = measured_parts_of(arena, preset->hardware);
    for (int64_t i = 0; i < parts.count; i++)
        if (!is_plain(parts.text[i]))
            return measured_parts_have(&known, parts.text[i]) &&
                   !measured_parts_have(&gpu, parts.text[i]);
    return false;
}

int64_t measured_machine_node(const struct measured_context *context, const char *hardware) {
    struct arena *arena = context->arena;
    for (const struct known_machine *m = context->machines; m->name != NULL; m++)
        if (says_one(arena, hardware, m->preset.words) &&
            counts_machines(arena, hardware, &m->preset))
            return m->preset.network.gpus_per_node;
    return 0;
}

/* Whether the name is one of the words (semicolons between), but for a count and the cloud. */
static bool is_named(struct arena *arena, const char *name, const char *words) {
    const struct measured_parts parts = measured_parts_of(arena, name),
                                known = measured_parts_of(arena, words);
    for (int64_t i = 0; i < parts.count; i++)
        if (!is_plain(parts.text[i]) && !measured_parts_have(&known, parts.text[i])) return false;
    return says_one(arena, name, words);
}

static bool same_family(const char *a, const char *b) {
    const size_t length = strcspn(a, "-");
    return strcspn(b, "-") == length && strncmp(a, b, length) == 0;
}

const char *measured_machines_gpu(const struct measured_context *context, const char *name) {
    const char *gpu = NULL;
    for (const struct known_machine *m = context->machines; m->name != NULL; m++) {
        if (!is_named(context->arena, name, m->preset.words)) continue;
        if (gpu != NULL && !same_family(gpu, m->preset.hardware)) return NULL;
        if (gpu == NULL) gpu = m->preset.hardware; /* the first part of a machine of two */
    }
    return gpu;
}
