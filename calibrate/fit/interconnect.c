/* interconnect.c - reads interconnect texts of published tables; fits the overhead of a fabric.
 *
 * overhead(S) = measured time - wire(S) / (share x efficiency), with wire and share as in
 * cost_model.c and efficiency the best that a system reaches from 1 GiB on. Systems of one fabric
 * are averaged in the logarithm after moving each to the first one's node count. The file has an
 * all-reduce's.
 */
#include "calibrate/fit/interconnect.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/gpu_name.h"
#include "calibrate/fit/own_tables.h"
#include "calibrate/fit/robust_fit.h"
#include "costmodel/efficiency.h"
#include "costmodel/hardware.h"

/* The first word found decides. Rates are of one usual NIC. */
static const struct {
    const char *word, *fabric;
    double nic_Gbit_per_s;
} words[] = {
    { "EFA 3200", "efa-3200", 400 }, { "EFA 8x400", "efa-3200", 400 },
    { "EFA", "efa", 400 },           { "TCPXO", "tcpxo", 200 },
    { "RoCE", "roce", 400 },         { "HDR", "hdr-infiniband", 200 },
    { "NDR", "infiniband", 400 },    { "InfiniBand", "infiniband", 400 },
    { "CX7 IB", "infiniband", 400 }, { "Slingshot", "slingshot", 200 },
};

#define NIC_Gbit_PER_S_DEFAULT 400.0
#define NIC_Gbit_PER_S_MOST    800.0
#define HOP_LATENCY_US         10.0 /* NCCL on 2 to 16 nodes of HDR200: +10 us a doubling */
#define EFFICIENCY_DEFAULT     0.90 /* where no buffer of 1 GiB was measured */
#define OVERHEAD_LEAST_US      1.0

/* Slingshot joins boards of four, whatever the GPU; NVLink 18 of GB200's and GB300's. */
static void node_of(const char *text, const char *profile, int *host_gpus, int *domain_gpus) {
    const bool nvl72 = profile != NULL && strstr(profile, "-nvl72") != NULL;
    *host_gpus = strstr(text, "Slingshot") != NULL ? 4 : gpu_name_host_gpus(profile);
    *domain_gpus = nvl72 ? 72 : *host_gpus;
}

/* As the shipped tables spell it, or at a word's beginning in any case: "default" is no EFA. */
static bool names(const char *text, const char *word) {
    if (strstr(text, word)) return true;
    for (const char *at = strcasestr(text, word); at; at = strcasestr(at + 1, word))
        if (at == text || !isalnum((unsigned char)at[-1])) return true;
    return false;
}

/* "400Gb/s"; "400G" where a NIC has that rate, for "80G" is a memory. */
static bool is_rate(double rate, const char *end) {
    static const double usual[] = { 25, 40, 50, 100, 200, 400, 800 };
    if (*end == 'b') return rate > 0;
    if (isalnum((unsigned char)*end)) return false;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (rate == usual[i]) return true;
    return false;
}

void network_from_interconnect(const char *text, const char *profile, struct cluster_network *out) {
    double nic_Gbit_per_s = NIC_Gbit_PER_S_DEFAULT, rate;
    int count, nic_count, end, host_gpus, domain_gpus;
    node_of(text, profile, &host_gpus, &domain_gpus);
    nic_count = host_gpus;
    *out = (struct cluster_network){ .nic_latency_s = HOP_LATENCY_US / 1e6 };
    bool names_nics = false;
    for (size_t w = 0; w < sizeof words / sizeof words[0] && !out->fabric; w++)
        if (names(text, words[w].word)) {
            out->fabric = words[w].fabric;
            nic_Gbit_per_s = words[w].nic_Gbit_per_s;
        }
    for (const char *at = text; *at; at++) {
        if (!isdigit((unsigned char)*at) || (at > text && isalnum((unsigned char)at[-1]))) continue;
        end = 0;
        if (sscanf(at, "%d x %lf G%n", &count, &rate, &end) == 2 && end > 0) {
            if (count < 1 || !is_rate(rate, at + end)) continue;
            names_nics = true;
            nic_count = count;
            nic_Gbit_per_s = rate;
        } else if (sscanf(at, "%dx HDR%lf", &count, &rate) == 2) {
            nic_count = count;
            nic_Gbit_per_s = rate;
        } else if (sscanf(at, "%dx CX%*d IB%n", &count, &end) == 1 && end > 0)
            nic_count = count;
        else if (sscanf(at, "%lf G%n", &rate, &end) == 1 && end > 0 && is_rate(rate, at + end)) {
            names_nics = true; /* no NIC has more than 800: that of a node */
            nic_Gbit_per_s = rate > NIC_Gbit_PER_S_MOST || strstr(at, "per node") != NULL
                                 ? rate / nic_count
                                 : rate;
        }
    }
    /* Between trays of one domain a text names no network. */
    const bool alone = out->fabric == NULL && !names_nics;
    out->gpus_per_node = strstr(text, "NVL72") != NULL ? 72 : alone ? domain_gpus : host_gpus;
    if (out->gpus_per_node != host_gpus) nic_count = (int)out->gpus_per_node;
    out->nics_per_node = nic_count;
    out->nic_bytes_per_s_per_gpu =
        nic_Gbit_per_s * 1e9 / 8 * nic_count / (double)out->gpus_per_node;
}

/* ---- fit --------------------------------------------------------------------------------------
 */

enum { OCTAVE_FIRST = 9, OCTAVE_LAST = 30 };

static const struct fabric_plan {
    const char *name, *description, *source;
    /* texts that only the systems of this fabric with a known number of NICs have */
    const char *systems[3];
    /* Instead of systems: overheads of an all-reduce on two nodes of eight GPUs, by size. */
    struct {
        double bytes, us;
    } stated[7];
} plans[] = {
    { .name = "infiniband",
      .description = "InfiniBand NDR, one 400 Gbit/s NIC for each GPU, NCCL",
      .source = "nccl-tests of H20 (NVIDIA/nccl#1244, small buffers) and of H100 with in-network "
                "reduction (coreweave/nccl-tests, from 512 MiB)",
      .systems = { "8x400Gb/s NDR InfiniBand", "16x CX7 IB NDR" } },
    { .name = "hdr-infiniband",
      .description = "InfiniBand HDR, 200 Gbit/s NICs, NCCL 2.8",
      .source = "nccl-tests of 2 to 16 nodes with four HDR200 NICs (aistabci/abci2.0benchmark)",
      .systems = { "4x HDR200" } },
    { .name = "roce",
      .description = "Ethernet with RDMA, one 400 Gbit/s NIC for each GPU, NCCL",
      .source = "nccl-tests all-gather on two H200 nodes of GCP a3-ultra (SkyPilot)",
      .systems = { "a3-ultra RoCE" } },
    { .name = "efa",
      .description = "AWS Elastic Fabric Adapter, NCCL",
      .source = "nccl-tests on two p4de nodes (awsome-distributed-training) and all-reduce on four "
                "p6-b200 nodes (stas00/ml-engineering)",
      .systems = { "p4de EFA", "p6-b200 EFAv4" } },
    { .name = "efa-3200",
      .description = "AWS Elastic Fabric Adapter, eight 400 Gbit/s of a p5 node, NCCL",
      .source = "stated from the summary of one published table (two p5 nodes, "
                "awsome-distributed-training): "
                "74 us up to 32 KiB, 150 us + S / 429 GB/s of bus bandwidth from 1 MiB on, 487 "
                "GB/s at most",
      .stated = { { 32768, 74 },
                  { 1048576, 150 },
                  { 4194304, 157 },
                  { 16777216, 177 },
                  { 67108864, 257 },
                  { 268435456, 577 },
                  { 1073741824, 1150 } } },
    { .name = "tcpxo",
      .description = "GCP GPUDirect-TCPXO, eight 200 Gbit/s NICs a node, NCCL",
      .source = "nccl-tests on two a3-mega nodes (lessizzmore/create-a3mega-ztan-fork)",
      .systems = { "a3-mega TCPXO" } },
    { .name = "slingshot",
      .description =
          "Slingshot 11, one 200 Gbit/s NIC for each GPU of a board of four, NCCL by OFI",
      .source = "nccl-tests all-reduce on two nodes of four GH200 (CSCS's and Sigma2's documents)",
      .systems = { "Slingshot 4x200Gb/s of" } },
};
enum { PLAN_COUNT = sizeof plans / sizeof plans[0] };

/* One measured system: an all-reduce or all-gather among n GPUs. */
struct measured_system {
    const char *interconnect;
    double rank_count, node_count;
    double wire_factor;       /* bytes over the NICs of a node for each byte of the buffer */
    double share_bytes_per_s; /* of a node's NICs */
    double efficiency;
    int passes; /* of the buffer: FABRIC_PASSES of an all-reduce, 1 of an all-gather */
    int64_t count;
    double log2_bytes[FABRIC_SIZE_MAX], us[FABRIC_SIZE_MAX]; /* sizes apart, ascending */
    int64_t runs[FABRIC_SIZE_MAX]; /* that `us` is the mean of, in the logarithm */
};

static double wire_us(const struct measured_system *system, double bytes) {
    return 1e6 * bytes * system->wire_factor / (system->share_bytes_per_s * system->efficiency);
}

/* An all-reduce or all-gather between nodes. */
static bool is_between_nodes(const struct nccl_row *row) {
    const bool op = strcmp(row->op, "all_reduce") == 0 || strcmp(row->op, "all_gather") == 0;
    return op && !row->in_place && row->n_nodes > 1 && row->n_gpus > 1 && row->time_us > 0 &&
           row->bytes > 0;
}

static const char *profile_of(const struct nccl_row *row) {
    const struct gpu_name *gpu = gpu_name_find(row->gpu);
    return gpu != NULL ? gpu->profile : NULL;
}

/* A shipped row by the plan's systems; a user's own by the fabric that its text names. */
static bool is_of(const struct fabric_plan *plan, const struct nccl_row *row, bool own) {
    struct cluster_network network;
    if (!is_between_nodes(row) || own_tables_has_key(row->source) == own) return false;
    if (own) {
        network_from_interconnect(row->interconnect, profile_of(row), &network);
        return network.fabric != NULL && strcmp(network.fabric, plan->name) == 0;
    }
    for (int s = 0; s < 3 && plan->systems[s]; s++)
        if (strstr(row->interconnect, plan->systems[s])) return true;
    return false;
}

/* `systems` has room for one a row. Of sizes beyond what a fabric's file holds *left_out counts the
 * rows. */
static void add_row(const struct nccl_row *row, struct measured_system *systems, int64_t *count,
                    int64_t *left_out) {
    struct measured_system *system = systems;
    const bool all_reduce = strcmp(row->op, "all_reduce") == 0;
    const int passes = all_reduce ? FABRIC_PASSES : 1;
    while (system < systems + *count &&
           (strcmp(system->interconnect, row->interconnect) != 0 || system->passes != passes ||
            system->rank_count != (double)row->n_gpus ||
            system->node_count != (double)row->n_nodes))
        system++;
    if (system == systems + *count) {
        struct cluster_network network;
        network_from_interconnect(row->interconnect, profile_of(row), &network);
        const double ring = ((double)row->n_gpus - 1) / (double)row->n_gpus;
        *system = (struct measured_system){
            .interconnect = row->interconnect,
            .rank_count = (double)row->n_gpus,
            .node_count = (double)row->n_nodes,
            .wire_factor = !all_reduce         ? ring
                           : row->n_nodes == 2 ? 1
                                               : 2 * ring,
            .share_bytes_per_s = network.nic_bytes_per_s_per_gpu * (double)network.gpus_per_node,
            .efficiency = 1,
            .passes = passes,
        };
        ++*count;
    }
    const double size = log2(row->bytes);
    int64_t i = system->count - 1;
    while (i >= 0 && system->log2_bytes[i] != size)
        i--;
    if (i < 0 && system->count == FABRIC_SIZE_MAX) {
        ++*left_out;
        return;
    }
    if (i < 0) {
        i = system->count++;
        system->log2_bytes[i] = size;
        system->us[i] = row->time_us;
        system->runs[i] = 1;
        return;
    }
    system->us[i] *= pow(row->time_us / system->us[i], 1 / (double)++system->runs[i]);
}

static void set_efficiency(struct measured_system *system) {
    double best = 0;
    for (int64_t i = 0; i < system->count; i++)
        if (system->log2_bytes[i] >= 30)
            best = fmax(best, wire_us(system, exp2(system->log2_bytes[i])) / system->us[i]);
    system->efficiency = best > 0 ? fmin(best, 1) : EFFICIENCY_DEFAULT;
}

/* Reductions in the switches halve what the NICs carry; more is another interconnect. */
#define MOST_OVER_WIRE 2.0

/* Of large buffers, whose time is the wire's. */
static bool can_carry(const struct measured_system *system, const char *path, struct error *err) {
    for (int64_t i = 0; i < system->count; i++) {
        const double bytes = exp2(system->log2_bytes[i]),
                     rate = bytes * system->wire_factor / system->us[i] * 1e6;
        if (system->log2_bytes[i] < 20 || rate <= MOST_OVER_WIRE * system->share_bytes_per_s)
            continue;
        error_set(err,
                  "%s: a buffer of %.4g bytes crosses %.0f nodes at %.4g GB/s a node, %.1f times "
                  "what its interconnect '%s' carries",
                  path, bytes, system->node_count, rate / 1e9, rate / system->share_bytes_per_s,
                  system->interconnect);
        return error_hint(err,
                          "interconnect: NICs a node and their rate, \"8x400Gb/s InfiniBand\"");
    }
    return true;
}

/* A system that takes what is stated, so that both are written by the same steps. */
static void state_system(const struct fabric_plan *plan, struct measured_system *system) {
    *system = (struct measured_system){ .rank_count = 16,
                                        .node_count = 2,
                                        .wire_factor = 1,
                                        .share_bytes_per_s = 8 * NIC_Gbit_PER_S_DEFAULT * 1e9 / 8,
                                        .efficiency = EFFICIENCY_DEFAULT,
                                        .passes = FABRIC_PASSES };
    for (size_t i = 0; i < sizeof plan->stated / sizeof plan->stated[0]; i++) {
        system->log2_bytes[i] = log2(plan->stated[i].bytes);
        system->us[i] = plan->stated[i].us + wire_us(system, plan->stated[i].bytes);
        system->count++;
    }
}

/* The overhead at a size, moved to `node_count` nodes; NAN outside the measured sizes. Rows of a
 * table ascend in size. */
static double overhead_us_at(const struct measured_system *system, double x, double node_count) {
    for (int64_t i = 0; i < system->count; i++) {
        const double *at = &system->log2_bytes[i];
        const bool here = at[0] == x, between = i + 1 < system->count && at[0] < x && at[1] > x;
        if (!here && !between) continue;
        const double share = here ? 0 : (x - at[0]) / (at[1] - at[0]);
        const double next_us = here ? system->us[i] : system->us[i + 1];
        const double us = system->us[i] * pow(next_us / system->us[i], share);
        const double moved_us = HOP_LATENCY_US * log2(node_count / system->node_count);
        return fmax(us - wire_us(system, exp2(x)) + moved_us, OVERHEAD_LEAST_US);
    }
    return NAN;
}

/* ln of an all-reduce's overhead; of a system that was measured with fewer passes, what its
 * overhead grew by since its smallest octave counts for each pass (hardware.h). */
static double log_overhead(const struct measured_system *system, double x, double node_count) {
    double us = overhead_us_at(system, x, node_count);
    if (system->passes < FABRIC_PASSES) {
        const double first_us =
            overhead_us_at(system, fmax(OCTAVE_FIRST, ceil(system->log2_bytes[0])), node_count);
        us = first_us + (us - first_us) * FABRIC_PASSES / system->passes;
    }
    return isnan(us) ? NAN : log(fmax(us, OVERHEAD_LEAST_US));
}

const char *const *calibrate_fabric_names(void) {
    static const char *const names[] = { "infiniband", "hdr-infiniband", "roce",      "efa",
                                         "efa-3200",   "tcpxo",          "slingshot", NULL };
    _Static_assert(sizeof names / sizeof names[0] == PLAN_COUNT + 1, "a name per plan");
    return names;
}

/* Moved to the nodes of `main`. False: no system has two sizes around a whole power of two. */
static bool write_fabric(const struct fabric_plan *plan, const char *description,
                         const char *source, const struct measured_system *systems,
                         int64_t system_count, const struct measured_system *main, cJSON *out) {
    cJSON *bytes = cJSON_CreateArray(), *overhead_us = cJSON_CreateArray();
    double efficiency = 0;
    for (int octave = OCTAVE_FIRST; octave <= OCTAVE_LAST; octave++) {
        double sum = 0;
        int count = 0;
        for (int64_t s = 0; s < system_count; s++) {
            const double log_us = log_overhead(&systems[s], octave, main->node_count);
            if (isnan(log_us)) continue;
            sum += log_us;
            count++;
        }
        if (count == 0) continue;
        cJSON_AddItemToArray(bytes, cJSON_CreateNumber(exp2(octave)));
        cJSON_AddItemToArray(overhead_us, cJSON_CreateNumber(round(10 * exp(sum / count)) / 10));
    }
    const bool any = cJSON_GetArraySize(bytes) > 0;
    for (int64_t s = 0; s < system_count; s++)
        efficiency += systems[s].efficiency / (double)system_count;
    const struct fabric_fields f = {
        .name = plan->name,
        .description = description,
        .source = source,
        .efficiency_fraction = round(1000 * efficiency) / 1000,
        .hop_latency_us = HOP_LATENCY_US,
        .node_count = main->node_count,
        .ranks_per_node = main->rank_count / main->node_count,
        .bytes = bytes,
        .overhead_us = overhead_us,
    };
    cJSON *object = field_table_write(&hardware_fabric_table, &f);
    while (object->child) {
        cJSON *item = cJSON_DetachItemViaPointer(object, object->child);
        cJSON_AddItemToObject(out, item->string, item);
    }
    cJSON_Delete(object);
    cJSON_Delete(bytes);
    cJSON_Delete(overhead_us);
    return any;
}

static int compare_bytes(const void *a, const void *b) {
    const struct nccl_row *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Of a user's systems the one that others are moved to: most sizes, then fewest nodes. */
static const struct measured_system *fullest(const struct measured_system *systems, int64_t count) {
    const struct measured_system *best = systems;
    for (int64_t s = 1; s < count; s++)
        if (systems[s].count > best->count ||
            (systems[s].count == best->count && systems[s].node_count < best->node_count))
            best = &systems[s];
    return best;
}

static bool can_be_read(struct arena *arena, const cJSON *fabric, struct error *err) {
    struct fabric read;
    struct json *json = calibrate_curves_json(fabric, "the fitted fabric", err);
    const bool ok = json && fabric_read(json, arena, &read, err);
    json_destroy(json);
    return ok;
}

/* Own rows of several nodes that name no fabric, or another one: what they name instead. */
static bool no_systems(struct arena *arena, const struct nccl_rows *rows, const char *path,
                       const char *name, struct error *err) {
    for (int64_t i = 0; i < rows->count; i++) {
        const struct nccl_row *row = &rows->rows[i];
        struct cluster_network network;
        if (!is_between_nodes(row) || own_tables_has_key(row->source)) continue;
        network_from_interconnect(row->interconnect, profile_of(row), &network);
        error_at(err, path, row->line, 0,
                 "no measurements of the fabric '%s': interconnect '%.80s' "
                 "is %s",
                 name, row->interconnect,
                 network.fabric ? arena_format(arena, "the fabric '%s'", network.fabric)
                                : "none that is known by its words");
        return error_hint(err, "the words are EFA, TCPXO, RoCE, HDR, NDR or InfiniBand, Slingshot "
                               "(calibrate/measured/README.md)");
    }
    error_set(err, "%s has no measurements of the fabric '%s'", path, name);
    return error_hint(err,
                      "an all-reduce or all-gather of two nodes or more, as `ballast calibrate "
                      "import nccl-tests` writes it");
}

static const struct fabric_plan *find_plan(const char *name, struct error *err) {
    for (int p = 0; p < PLAN_COUNT; p++)
        if (strcmp(plans[p].name, name) == 0) return &plans[p];
    const char *near = nearest_in_list(name, calibrate_fabric_names());
    error_set(err, "no rule says which measurements make the fabric '%s'", name);
    if (near)
        error_hint(err, "did you mean '%s'?", near);
    else
        error_hint(err, "`ballast calibrate --help` lists the fabrics");
    return NULL;
}

bool calibrate_knows_fabric(const char *name, struct error *err) {
    return find_plan(name, err) != NULL;
}

bool calibrate_fit_fabric(struct arena *arena, const char *measured_dir, const char *name,
                          cJSON *fabric_out, struct error *err) {
    const struct fabric_plan *plan = find_plan(name, err);
    if (!plan) return false;
    struct nccl_rows rows;
    const char *path = calibrate_table(arena, measured_dir, NULL, "nccl");
    if (!nccl_rows_read(arena, path, &rows, err)) return false;
    struct nccl_row *taken = arena_array(arena, struct nccl_row, rows.count + 1);
    int64_t taken_count = 0;
    bool shipped = false; /* the folder has shipped rows, of whatever network */
    for (int64_t i = 0; i < rows.count; i++) {
        shipped = shipped || own_tables_has_key(rows.rows[i].source);
        if (is_of(plan, &rows.rows[i], true)) taken[taken_count++] = rows.rows[i];
    }
    qsort(taken, (size_t)taken_count, sizeof *taken, compare_bytes);
    const bool own = taken_count > 0;
    for (int64_t i = 0; i < rows.count && !own; i++)
        if (is_of(plan, &rows.rows[i], false)) taken[taken_count++] = rows.rows[i];
    struct measured_system *systems = arena_array(arena, struct measured_system, taken_count + 1);
    int64_t system_count = 0, left_out = 0;
    for (int64_t i = 0; i < taken_count; i++)
        add_row(&taken[i], systems, &system_count, &left_out);
    if (own && left_out > 0)
        return error_set(err,
                         "%s: a kind of run has more than %d sizes of buffers: %lld rows have no "
                         "place",
                         path, FABRIC_SIZE_MAX, (long long)left_out);
    const bool stated = plan->stated[0].bytes > 0 && !own && shipped;
    if (stated) state_system(plan, &systems[system_count++]);
    if (system_count == 0) return no_systems(arena, &rows, path, name, err);
    for (int64_t s = 0; own && s < system_count; s++)
        if (!can_carry(&systems[s], path, err)) return false;
    for (int64_t s = 0; s < system_count && !stated; s++)
        set_efficiency(&systems[s]);
    const struct measured_system *main = own ? fullest(systems, system_count) : systems;
    const char *source =
        own ? arena_format(arena, "%lld row%s of nccl-tests in %s, %lld kind%s of run",
                           (long long)taken_count, taken_count == 1 ? "" : "s", path,
                           (long long)system_count, system_count == 1 ? "" : "s")
            : plan->source;
    if (!write_fabric(plan, own ? main->interconnect : plan->description, source, systems,
                      system_count, main, fabric_out)) {
        error_set(err,
                  "%s: no kind of run of the fabric '%s' has sizes on both sides of a power of two",
                  path, name);
        return error_hint(err, "let nccl-tests double them: -b 8 -e 8G -f 2");
    }
    return can_be_read(arena, fabric_out, err);
}
