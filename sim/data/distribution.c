/* distribution.c - every distribution as a quantile function, so that two of them can be correlated
 * by a Gaussian copula (dataset.c) and a draw uses a fixed count of random numbers.
 *
 * Uniform, normal, lognormal and exponential have closed inverses (GSL). Gamma, Poisson, Zipf and
 * histograms are tabulated as cumulative weights over whole numbers, P(k) = F(k + 1/2) - F(k - 1/2)
 * for the continuous one, and searched. mean and std are those of the distribution itself before
 * clamping, whatever its natural parameters.
 */
#include "sim/data/distribution.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>
#include <math.h>

enum distribution_kind {
    KIND_CONSTANT,
    KIND_UNIFORM,
    KIND_NORMAL,
    KIND_LOGNORMAL,
    KIND_EXPONENTIAL,
    KIND_GAMMA,
    KIND_POISSON,
    KIND_ZIPF,
    KIND_HISTOGRAM,
    KIND_MIXTURE
};

static const char *const kind_names[] = { "constant",    "uniform", "normal",  "lognormal",
                                          "exponential", "gamma",   "poisson", "zipf",
                                          "histogram",   "mixture", NULL };

#define VALUE_LIMIT 100000000.0
enum { TABLE_LIMIT = 1 << 22 };

/* The part of a tabulated distribution beyond the table: less than one sample in a trillion. */
static const double tail_weight = 1e-12;

struct distribution_values {
    int kind;
    double value, mean, std, exponent, min, max, weight;
    const cJSON *values, *weights, *components;
};

struct distribution {
    enum distribution_kind kind;
    double mean, std, mu, sigma;
    int64_t min, max;
    /* tables: value of entry i is values[i], or first + i; cumulative weights up to and with i */
    int64_t *values;
    int64_t first, entry_count;
    double *cumulative;
    const struct distribution **components; /* of a mixture; chosen by `cumulative` */
};

#define AT(member) offsetof(struct distribution_values, member)
static const struct field fields[] = {
    { "distribution", FIELD_CHOICE, AT(kind), 0, 0, NULL, "", "which one", kind_names },
    { "value", FIELD_DOUBLE, AT(value), 0, VALUE_LIMIT, "null", "", "constant: the value", NULL },
    { "mean", FIELD_DOUBLE, AT(mean), 0, VALUE_LIMIT, "null", "",
      "normal, lognormal, exponential, gamma, poisson", NULL },
    { "std", FIELD_DOUBLE, AT(std), 0, VALUE_LIMIT, "null", "",
      "standard deviation: normal, lognormal, gamma", NULL },
    { "exponent", FIELD_DOUBLE, AT(exponent), 0, 20, "null", "",
      "zipf: weight of k is k to the power -exponent", NULL },
    { "min", FIELD_DOUBLE, AT(min), 0, VALUE_LIMIT, "null", "",
      "smallest value; smaller ones become this (default 0)", NULL },
    { "max", FIELD_DOUBLE, AT(max), 0, VALUE_LIMIT, "null", "",
      "largest value; larger ones become this", NULL },
    { "values", FIELD_NODE, AT(values), 0, 0, "null", "", "histogram: rising whole numbers", NULL },
    { "weights", FIELD_NODE, AT(weights), 0, 0, "null", "", "histogram: one weight per value",
      NULL },
    { "components", FIELD_NODE, AT(components), 0, 0, "null", "",
      "mixture: distributions, each with a weight", NULL },
    { "weight", FIELD_DOUBLE, AT(weight), 0, 1e12, "1", "", "of a component in its mixture", NULL },
};
const struct field_table distribution_fields =
    FIELD_TABLE("distribution", "a distribution of whole numbers", fields);

/* Which parameters a distribution takes: 'r' required, 'o' optional, '-' not taken.
 * In order: value mean std exponent min max values weights components. */
static const char *const parameter_use[] = {
    [KIND_CONSTANT] = "r--------",    [KIND_UNIFORM] = "----rr---",
    [KIND_NORMAL] = "-rr-oo---",      [KIND_LOGNORMAL] = "-rr-oo---",
    [KIND_EXPONENTIAL] = "-r--oo---", [KIND_GAMMA] = "-rr-oo---",
    [KIND_POISSON] = "-r--oo---",     [KIND_ZIPF] = "---rrr---",
    [KIND_HISTOGRAM] = "----oorr-",   [KIND_MIXTURE] = "----oo--r",
};

/* ---- tables ---- */

static void table_reserve(struct distribution *d, struct arena *arena, int64_t count) {
    d->entry_count = count;
    d->cumulative = arena_array(arena, double, count);
}

/* Weights become rising sums that end in 1. False if they sum to nothing. */
static bool table_accumulate(struct distribution *d) {
    double sum = 0;
    for (int64_t i = 0; i < d->entry_count; i++)
        d->cumulative[i] = sum += d->cumulative[i];
    if (!(sum > 0)) return false;
    for (int64_t i = 0; i < d->entry_count; i++)
        d->cumulative[i] /= sum;
    return true;
}

static int64_t table_find(const struct distribution *d, double u) {
    int64_t low = 0, high = d->entry_count - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (d->cumulative[middle] < u)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double upper_tail(const struct distribution *d, double k) {
    if (d->kind == KIND_POISSON) return gsl_cdf_poisson_Q((unsigned)k, d->mean);
    double scale = d->std * d->std / d->mean;
    return gsl_cdf_gamma_Q(k + 0.5, d->mean / scale, scale);
}

/* Entries 0, 1, 2 ... until the tail is negligible. */
static bool tabulate_tail(struct distribution *d, struct arena *arena, const struct json *json,
                          const cJSON *node, struct error *err) {
    int64_t count = 1;
    while (count <= TABLE_LIMIT && upper_tail(d, (double)(count - 1)) > tail_weight)
        count *= 2;
    if (count > TABLE_LIMIT)
        return json_error(json, node, err, NULL, "the distribution reaches beyond %d", TABLE_LIMIT);
    table_reserve(d, arena, count);
    double above = 1;
    for (int64_t k = 0; k < count; k++) {
        double tail = upper_tail(d, (double)k);
        d->cumulative[k] = above - tail;
        above = tail;
    }
    ballast_check(table_accumulate(d));
    return true;
}

static bool tabulate_zipf(struct distribution *d, double exponent, struct arena *arena,
                          const struct json *json, const cJSON *node, struct error *err) {
    if (d->min < 1) return json_error(json, node, err, NULL, "zipf needs a \"min\" of at least 1");
    if (d->max - d->min >= TABLE_LIMIT)
        return json_error(json, node, err, NULL, "zipf takes at most %d values", TABLE_LIMIT);
    d->first = d->min;
    table_reserve(d, arena, d->max - d->min + 1);
    for (int64_t i = 0; i < d->entry_count; i++)
        d->cumulative[i] = pow((double)(d->first + i), -exponent);
    ballast_check(table_accumulate(d));
    return true;
}

static bool tabulate_histogram(struct distribution *d, const struct distribution_values *v,
                               struct arena *arena, const struct json *json, struct error *err) {
    int count = cJSON_GetArraySize(v->values);
    if (!cJSON_IsArray(v->values) || count == 0)
        return json_error(json, v->values, err, NULL, "\"values\" must be a list of numbers");
    if (!cJSON_IsArray(v->weights) || cJSON_GetArraySize(v->weights) != count)
        return json_error(json, v->weights, err, NULL,
                          "\"weights\" must be a list of %d numbers, one per value", count);
    table_reserve(d, arena, count);
    d->values = arena_array(arena, int64_t, count);
    const cJSON *value = v->values->child, *weight = v->weights->child;
    for (int i = 0; i < count; i++, value = value->next, weight = weight->next) {
        double x = value->valuedouble;
        if (!cJSON_IsNumber(value) || x != floor(x) || x < 0 || x > VALUE_LIMIT ||
            (i > 0 && (int64_t)x <= d->values[i - 1]))
            return json_error(json, value, err, NULL,
                              "\"values\" must be whole numbers that rise, 0 to %.0f", VALUE_LIMIT);
        if (!cJSON_IsNumber(weight) || !(weight->valuedouble >= 0) || isinf(weight->valuedouble))
            return json_error(json, weight, err, NULL, "a weight must be a number, 0 or more");
        d->values[i] = (int64_t)x;
        d->cumulative[i] = weight->valuedouble;
    }
    return table_accumulate(d) ||
           json_error(json, v->weights, err, NULL, "at least one weight must be above 0");
}

/* ---- reading ---- */

static bool check_parameters(const struct distribution_values *v, const struct json *json,
                             const cJSON *node, struct error *err) {
    const bool given[] = { !isnan(v->value),    !isnan(v->mean),    !isnan(v->std),
                           !isnan(v->exponent), !isnan(v->min),     !isnan(v->max),
                           v->values != NULL,   v->weights != NULL, v->components != NULL };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        const char *name = fields[i + 1].name;
        char use = parameter_use[v->kind][i];
        if (use == 'r' && !given[i])
            return json_error(json, node, err, fields[i + 1].help,
                              "%s %s distribution needs \"%s\"",
                              v->kind == KIND_EXPONENTIAL ? "an" : "a", kind_names[v->kind], name);
        if (use == '-' && given[i])
            return json_error(json, cJSON_GetObjectItemCaseSensitive(node, name), err, NULL,
                              "%s %s distribution takes no \"%s\"",
                              v->kind == KIND_EXPONENTIAL ? "an" : "a", kind_names[v->kind], name);
    }
    return true;
}

static const struct distribution *read_one(struct arena *arena, const struct json *json,
                                           const cJSON *node, double *weight, struct error *err);

static bool read_components(struct distribution *d, const cJSON *list, struct arena *arena,
                            const struct json *json, struct error *err) {
    int count = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || count == 0)
        return json_error(json, list, err, NULL, "\"components\" must be a list of distributions");
    table_reserve(d, arena, count);
    d->components = arena_array(arena, const struct distribution *, count);
    const cJSON *node = list->child;
    for (int i = 0; i < count; i++, node = node->next) {
        d->components[i] = read_one(arena, json, node, &d->cumulative[i], err);
        if (d->components[i] == NULL) return false;
        if (d->components[i]->kind == KIND_MIXTURE)
            return json_error(json, node, err, "list its components in the outer one",
                              "a mixture inside a mixture");
    }
    return table_accumulate(d) ||
           json_error(json, list, err, NULL, "at least one weight must be above 0");
}

static bool set_parameters(struct distribution *d, const struct distribution_values *v,
                           struct arena *arena, const struct json *json, const cJSON *node,
                           struct error *err) {
    d->mean = v->mean;
    d->std = v->std;
    bool needs_spread = d->kind == KIND_GAMMA || d->kind == KIND_LOGNORMAL;
    bool needs_mean = needs_spread || d->kind == KIND_EXPONENTIAL || d->kind == KIND_POISSON;
    if ((needs_mean && !(d->mean > 0)) || (needs_spread && !(d->std > 0)))
        return json_error(json, node, err, NULL, "%s must be above 0",
                          needs_spread ? "\"mean\" and \"std\"" : "\"mean\"");
    switch (d->kind) {
    case KIND_CONSTANT:
        d->min = d->max = (int64_t)round(v->value);
        return true;
    case KIND_LOGNORMAL:
        d->sigma = sqrt(log1p(d->std * d->std / (d->mean * d->mean)));
        d->mu = log(d->mean) - d->sigma * d->sigma / 2;
        return true;
    case KIND_GAMMA:
    case KIND_POISSON:
        return tabulate_tail(d, arena, json, node, err);
    case KIND_ZIPF:
        return tabulate_zipf(d, v->exponent, arena, json, node, err);
    case KIND_HISTOGRAM:
        return tabulate_histogram(d, v, arena, json, err);
    case KIND_MIXTURE:
        return read_components(d, v->components, arena, json, err);
    default:
        return true;
    }
}

static const struct distribution *read_one(struct arena *arena, const struct json *json,
                                           const cJSON *node, double *weight, struct error *err) {
    struct distribution *d = arena_new(arena, struct distribution);
    *weight = 1;
    if (cJSON_IsNumber(node)) {
        double value = node->valuedouble;
        if (value != floor(value) || value < 0 || value > VALUE_LIMIT) {
            json_error(json, node, err, NULL, "must be a whole number from 0 to %.0f, got %.10g",
                       VALUE_LIMIT, value);
            return NULL;
        }
        d->min = d->max = (int64_t)value;
        return d;
    }
    struct distribution_values v;
    if (!field_table_read(&distribution_fields, json, node, &v, arena, err) ||
        !check_parameters(&v, json, node, err))
        return NULL;
    *weight = v.weight;
    d->kind = (enum distribution_kind)v.kind;
    d->min = isnan(v.min) ? 0 : (int64_t)round(v.min);
    d->max = isnan(v.max) ? (int64_t)VALUE_LIMIT : (int64_t)round(v.max);
    if (d->min > d->max) {
        json_error(json, node, err, NULL, "\"min\" is above \"max\"");
        return NULL;
    }
    return set_parameters(d, &v, arena, json, node, err) ? d : NULL;
}

const struct distribution *distribution_read(struct arena *arena, const struct json *json,
                                             const cJSON *node, struct error *err) {
    double weight;
    return read_one(arena, json, node, &weight, err);
}

/* ---- drawing ---- */

static double raw_quantile(const struct distribution *d, double u) {
    switch (d->kind) {
    case KIND_CONSTANT:
        return (double)d->min;
    case KIND_UNIFORM:
        return floor((double)d->min + u * (double)(d->max - d->min + 1));
    case KIND_NORMAL:
        return d->std > 0 ? d->mean + gsl_cdf_gaussian_Pinv(u, d->std) : d->mean;
    case KIND_LOGNORMAL:
        return exp(d->mu + d->sigma * gsl_cdf_ugaussian_Pinv(u));
    case KIND_EXPONENTIAL:
        return gsl_cdf_exponential_Pinv(u, d->mean);
    case KIND_HISTOGRAM:
        return (double)d->values[table_find(d, u)];
    case KIND_GAMMA:
    case KIND_POISSON:
    case KIND_ZIPF:
        return (double)(d->first + table_find(d, u));
    case KIND_MIXTURE:
        break;
    }
    ballast_bug("distribution of kind %d has no quantile", (int)d->kind);
}

int64_t distribution_quantile(const struct distribution *distribution, double u, double v) {
    const struct distribution *d = distribution;
    if (d->kind == KIND_MIXTURE) {
        int64_t value = distribution_quantile(d->components[table_find(d, v)], u, v);
        return value < d->min ? d->min : value > d->max ? d->max : value;
    }
    double value = round(raw_quantile(d, u));
    if (value <= (double)d->min) return d->min;
    if (value >= (double)d->max) return d->max;
    return (int64_t)value;
}
