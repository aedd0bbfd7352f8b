/* run_pair.c - what two predictions may err by against each other, from the columns of two runs. */
#include "results/run_pair.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
#include "results/run_file.h"
#include "sim/base/band.h"

static cJSON *resolved(const struct run_record *run) {
    return run->resolved_scenario != NULL ? cJSON_Parse(run->resolved_scenario) : NULL;
}

/* NULL: it has none. */
static const cJSON *value_of(const cJSON *scenario, const char *section, const char *key) {
    const cJSON *value =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(scenario, section), key);
    return cJSON_IsNull(value) ? NULL : value;
}

/* Of both scenarios' keys; of a run without its scenario nobody knows. */
static bool same_values(const struct run_record *a, const struct run_record *b,
                        const char *const (*keys)[2], size_t key_count) {
    cJSON *left = resolved(a), *right = resolved(b);
    bool same = left != NULL && right != NULL;
    for (size_t i = 0; same && i < key_count; i++) {
        const cJSON *l = value_of(left, keys[i][0], keys[i][1]),
                    *r = value_of(right, keys[i][0], keys[i][1]);
        same = l == NULL || r == NULL ? l == r : cJSON_Compare(l, r, true);
    }
    cJSON_Delete(left);
    cJSON_Delete(right);
    return same;
}

bool run_pair_same_stack(const struct run_record *a, const struct run_record *b) {
    static const char *const keys[][2] = { { "layout", "backend" }, { "training", "precision" } };
    return same_values(a, b, keys, sizeof keys / sizeof keys[0]) &&
           run_same_file(a, b, RUN_FILE_STACK) && run_same_file(a, b, RUN_FILE_HARDWARE);
}

bool run_pair_waits_told(const struct run_record *a, const struct run_record *b) {
    return !isnan(a->launch_cost_ms) && !isnan(b->launch_cost_ms);
}

/* Of the amount: what `ms` of a mean step make. */
static double share_of(const struct run_record *run, double amount, double ms) {
    const double goodput = isnan(run->goodput_fraction) ? 1 : run->goodput_fraction;
    return amount * goodput * ms / run->step_time_mean_ms;
}

/* As the names of GPUs without NVLink end ("h100-94g-nvl" is priced without its bridges). */
static bool is_card(const struct run_record *run) {
    static const char *const ends[] = { "-pcie", "-nvl" };
    cJSON *scenario = resolved(run);
    const char *name = cJSON_GetStringValue(value_of(scenario, "cluster", "hardware"));
    bool card = false;
    for (size_t i = 0; name != NULL && i < sizeof ends / sizeof ends[0]; i++)
        card = card || (strlen(name) >= strlen(ends[i]) &&
                        strcmp(name + strlen(name) - strlen(ends[i]), ends[i]) == 0);
    cJSON_Delete(scenario);
    return card;
}

/* Of one that a version before 17 of the tables stored, all that it communicates. */
static double pcie_ms(const struct run_record *run) {
    if (!isnan(run->pcie_ms)) return run->pcie_ms;
    if (!is_card(run)) return 0;
    const double parts[] = { run->exposed_tensor_ms, run->exposed_context_ms,
                             run->exposed_pipeline_ms, run->exposed_data_ms };
    double sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sum += isnan(parts[i]) ? 0 : parts[i];
    return sum;
}

/* Of what is predicted among eight cards (12.5 GB/s), that servers of one card took: 28 GB/s of
 * NVIDIA/nccl-tests issue 178 and nccl issue 1639, 1.4 GB/s of ai-dynamo/aiconfigurator. */
#define PCIE_SHORTEST (12.5 / 28)
#define PCIE_LONGEST  (12.5 / 1.4)

/* How much longer a run is, in ln, where its traffic over PCIe takes `times` what it is predicted
 * to. */
static double longer_log(const struct run_record *run, double times) {
    return log1p((times - 1) * fmin(share_of(run, 1, pcie_ms(run)), 1));
}

/* By how much the longer of two may be the less long for its servers' speeds: one speed where the
 * GPU is the same. */
static double pcie_apart(const struct run_record *shorter, const struct run_record *longer) {
    const double fast = longer_log(longer, PCIE_SHORTEST), slow = longer_log(shorter, PCIE_LONGEST);
    if (!run_same_file(shorter, longer, RUN_FILE_HARDWARE)) return slow - fast;
    const double both_fast = longer_log(shorter, PCIE_SHORTEST) - fast,
                 both_slow = slow - longer_log(longer, PCIE_LONGEST);
    return fmax(0, fmax(both_fast, both_slow));
}

/* Where one band lies to a side of the other, runs are that much longer for their predictions; what
 * makes runs of one kind longer makes both of a pair so. Infinite where a band reaches down to
 * nothing, NaN where one is not known. */
static double apart(const struct run_record *a, const struct run_record *b) {
    const struct band_log of_a = band_log(band_of_stored(a->band_below_fraction, a->band_fraction)),
                          of_b = band_log(band_of_stored(b->band_below_fraction, b->band_fraction));
    if (isinf(of_a.half) || isinf(of_b.half)) return INFINITY;
    return fabs(of_a.middle - of_b.middle) + hypot(of_a.half, of_b.half);
}

/* What launches take is a stack's figure of whatever host it was read on, so the part of the
 * difference that waiting for them makes counts as an error too. */
struct run_pair_error run_pair_error(const struct run_record *reference, double reference_amount,
                                     const struct run_record *run, double run_amount) {
    const double pair = fmax(run->pair_band_fraction, reference->pair_band_fraction);
    struct run_pair_error error = { .waits_log = NAN };
    error.shared = !isnan(pair) && run_pair_same_stack(reference, run);
    /* What does not cancel is no less than what is left where it does. */
    const double shared_log = isnan(pair) ? 0 : log1p(pair);
    error.predictions_log = error.shared ? shared_log : apart(run, reference);
    if (error.predictions_log < shared_log) error.predictions_log = shared_log; /* NaN stays */
    if (run_pair_waits_told(reference, run)) {
        const double waits = share_of(run, run_amount, run->launch_cost_ms) -
                             share_of(reference, reference_amount, reference->launch_cost_ms);
        error.waits_log = fabs(log1p(waits / reference_amount));
    }
    error.pcie_log =
        reference_amount < run_amount ? pcie_apart(reference, run) : pcie_apart(run, reference);
    return error;
}

bool run_pair_is_sure(const struct run_pair_error *error, double delta_fraction) {
    return fabs(log1p(delta_fraction)) >
           error->predictions_log + error->waits_log + error->pcie_log; /* NaN: not */
}
