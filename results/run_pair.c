/* run_pair.c - what two predictions may err by against each other, from the columns of two runs. */
#include "results/run_pair.h"

#include <cjson/cJSON.h>
#include <math.h>
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

bool run_pair_same_stack(const struct run_record *a, const struct run_record *b) {
    static const char *const keys[][2] = { { "layout", "backend" },
                                           { "layout", "stack" },
                                           { "cluster", "hardware" },
                                           { "training", "precision" } };
    cJSON *left = resolved(a), *right = resolved(b);
    bool same = left != NULL && right != NULL;
    for (size_t i = 0; same && i < sizeof keys / sizeof keys[0]; i++) {
        const cJSON *l = value_of(left, keys[i][0], keys[i][1]),
                    *r = value_of(right, keys[i][0], keys[i][1]);
        same = l == NULL || r == NULL ? l == r : cJSON_Compare(l, r, true);
    }
    cJSON_Delete(left);
    cJSON_Delete(right);
    return same;
}

bool run_pair_waits_told(const struct run_record *a, const struct run_record *b) {
    return !isnan(a->launch_cost_ms) && !isnan(b->launch_cost_ms);
}

/* Of the amount: what `ms` of a mean step make. */
static double share_of(const struct run_record *run, double amount, double ms) {
    const double goodput = isnan(run->goodput_fraction) ? 1 : run->goodput_fraction;
    return amount * goodput * ms / run->step_time_mean_ms;
}

static double pcie_share(const struct run_record *run, double amount) {
    return isnan(run->pcie_ms) ? 0 : share_of(run, amount, run->pcie_ms);
}

/* Where one band lies to a side of the other, runs are that much longer for their predictions; what
 * makes runs of one kind longer makes both of a pair so. */
static double apart(const struct run_record *a, const struct run_record *b) {
    const struct band_log of_a = band_log(band_of_stored(a->band_below_fraction, a->band_fraction)),
                          of_b = band_log(band_of_stored(b->band_below_fraction, b->band_fraction));
    return fabs(of_a.middle - of_b.middle) + hypot(of_a.half, of_b.half);
}

/* What launches take is a stack's figure of whatever host it was read on, and what PCIe carries a
 * server's, so the parts of the difference that they make count as errors too. */
struct run_pair_error run_pair_error(const struct run_record *reference, double reference_amount,
                                     const struct run_record *run, double run_amount) {
    const double pair = fmax(run->pair_band_fraction, reference->pair_band_fraction);
    struct run_pair_error error = { .waits_log = NAN };
    error.shared = !isnan(pair) && run_pair_same_stack(reference, run);
    error.predictions_log = error.shared ? log1p(pair) : apart(run, reference);
    if (run_pair_waits_told(reference, run)) {
        const double waits = share_of(run, run_amount, run->launch_cost_ms) -
                             share_of(reference, reference_amount, reference->launch_cost_ms);
        error.waits_log = fabs(log1p(waits / reference_amount));
    }
    const double pcie = pcie_share(run, run_amount) - pcie_share(reference, reference_amount);
    error.pcie_log = fabs(log1p(pcie / reference_amount));
    return error;
}

bool run_pair_is_sure(const struct run_pair_error *error, double delta_fraction) {
    return fabs(log1p(delta_fraction)) >
           error->predictions_log + error->waits_log + error->pcie_log; /* NaN: not */
}
