/* memory_program.c - one candidate a stage pair under a memory limit at every event.
 *
 * Dual: with a price on each event's memory, a pair pays for its bytes at all events it is alive,
 * and each pair chooses alone; that gives a lower bound for any prices >= 0. Prices move by
 * Polyak's subgradient steps towards the best choice known. Primal: from the smallest candidates,
 * upgrades along each pair's hull in the order of seconds saved per priced byte while they fit. The
 * prices make long-lived pairs dear where memory is short. Both give a proven gap.
 */
#include "sim/policy/joint/memory_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"

enum { ROUND_LIMIT = 200, PRIMAL_EVERY = 10 };

struct upgrade {
    int32_t pair, to;
    double value;
};

struct solver {
    const struct memory_program *p;
    double *price, *price_sum; /* by event; sums before it */
    double *use;               /* by event */
    double *least;             /* bytes of all smallest candidates, by event */
    struct upgrade *upgrades, *sorted; /* sorted: room for the sort */
    int32_t *trial;
    bool *full; /* by pair: no further upgrade fits */
};

static const struct memory_candidate *candidate(const struct memory_program *p, int32_t pair,
                                                int32_t index) {
    return &p->candidates[pair][index];
}

static void add_use(const struct memory_program *p, const int32_t *chosen, double *use) {
    /* Differences first, so that long lives cost no more than short ones. */
    memset(use, 0, sizeof *use * (size_t)(p->event_count + 1));
    for (int32_t i = 0; i < p->pair_count; i++) {
        double bytes = candidate(p, i, chosen[i])->bytes;
        use[p->first[i]] += bytes;
        use[p->last[i] + 1] -= bytes;
    }
    for (int32_t k = 1; k < p->event_count; k++)
        use[k] += use[k - 1];
}

static double total_seconds(const struct memory_program *p, const int32_t *chosen) {
    double sum = 0;
    for (int32_t i = 0; i < p->pair_count; i++)
        sum += candidate(p, i, chosen[i])->seconds;
    return sum;
}

static void sum_prices(struct solver *s) {
    s->price_sum[0] = 0;
    for (int32_t k = 0; k < s->p->event_count; k++)
        s->price_sum[k + 1] = s->price_sum[k] + s->price[k];
}

static double pair_price(const struct solver *s, int32_t pair) {
    return s->price_sum[s->p->last[pair] + 1] - s->price_sum[s->p->first[pair]];
}

/* Each pair on its own; returns the bound and leaves its choice in `trial`. */
static double dual_value(struct solver *s) {
    const struct memory_program *p = s->p;
    double value = 0;
    sum_prices(s);
    for (int32_t i = 0; i < p->pair_count; i++) {
        double price = pair_price(s, i), best = INFINITY;
        for (int32_t j = 0; j < p->candidate_counts[i]; j++) {
            double cost = candidate(p, i, j)->seconds + price * candidate(p, i, j)->bytes;
            if (cost >= best) continue;
            best = cost;
            s->trial[i] = j;
        }
        value += best;
    }
    for (int32_t k = 0; k < p->event_count; k++)
        value -= s->price[k] * p->capacity_bytes[k];
    return value;
}

/* ---- upgrades by falling value ---- */

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, KEY_BITS = 64 };

/* Values are >= 0, whose order as numbers is that of their bits. */
static uint64_t falling_key(const struct upgrade *u) {
    uint64_t bits;
    memcpy(&bits, &u->value, sizeof bits);
    return ~bits;
}

/* Stable, digit by digit, so that equal values keep the order of their pairs; digits in which all
 * agree are passed over. Leaves the list in s->upgrades. */
static void sort_upgrades(struct solver *s, int64_t count) {
    for (int shift = 0; shift < KEY_BITS; shift += DIGIT_BITS) {
        int64_t starts[DIGITS + 1] = { 0 };
        for (int64_t u = 0; u < count; u++)
            starts[(falling_key(&s->upgrades[u]) >> shift & (DIGITS - 1)) + 1]++;
        if (starts[(falling_key(&s->upgrades[0]) >> shift & (DIGITS - 1)) + 1] == count) continue;
        for (int d = 0; d < DIGITS; d++)
            starts[d + 1] += starts[d];
        for (int64_t u = 0; u < count; u++)
            s->sorted[starts[falling_key(&s->upgrades[u]) >> shift & (DIGITS - 1)]++] =
                s->upgrades[u];
        struct upgrade *kept = s->upgrades;
        s->upgrades = s->sorted;
        s->sorted = kept;
    }
}

/* Upgrades from each candidate to the next; candidates come sorted and undominated. */
static int64_t list_upgrades(struct solver *s) {
    const struct memory_program *p = s->p;
    int64_t count = 0;
    double base = 0;
    for (int32_t k = 0; k < p->event_count; k++)
        base += s->price[k];
    base = base > 0 ? base / p->event_count * 1e-3 : 1;
    for (int32_t i = 0; i < p->pair_count; i++) {
        double price = pair_price(s, i) + base, worst = INFINITY;
        for (int32_t j = 1; j < p->candidate_counts[i]; j++) {
            double saved = candidate(p, i, j - 1)->seconds - candidate(p, i, j)->seconds;
            double bytes = candidate(p, i, j)->bytes - candidate(p, i, j - 1)->bytes;
            double value = saved / (bytes * price);
            if (value > worst) value = worst; /* a later upgrade never before an earlier one */
            worst = value;
            s->upgrades[count++] = (struct upgrade){ i, j, value };
        }
    }
    if (count > 0) sort_upgrades(s, count);
    return count;
}

enum { LANES = 4 };

/* What is left at the fullest event of the pair's life; in lanes, which need not wait for each
 * other. */
static double room_of(const struct solver *s, int32_t pair) {
    const double *use = s->use, *capacity = s->p->capacity_bytes;
    double least[LANES] = { INFINITY, INFINITY, INFINITY, INFINITY };
    int32_t k = s->p->first[pair], last = s->p->last[pair];
    for (; k + LANES - 1 <= last; k += LANES)
        for (int i = 0; i < LANES; i++) {
            double left = capacity[k + i] - use[k + i];
            least[i] = left < least[i] ? left : least[i];
        }
    for (; k <= last; k++)
        least[0] = fmin(least[0], capacity[k] - use[k]);
    return fmin(fmin(least[0], least[1]), fmin(least[2], least[3]));
}

static double step_bytes(const struct memory_program *p, int32_t pair, int32_t from, int32_t to) {
    return candidate(p, pair, to)->bytes - candidate(p, pair, from)->bytes;
}

/* Use only grows and a later upgrade of a pair is larger, so one that does not fit is its last.
 * Upgrades of a pair that follow each other, as those of equal layers do, are taken together. */
static void greedy(struct solver *s, int32_t *chosen) {
    const struct memory_program *p = s->p;
    memset(chosen, 0, sizeof *chosen * (size_t)p->pair_count);
    memset(s->full, 0, sizeof *s->full * (size_t)p->pair_count);
    memcpy(s->use, s->least, sizeof *s->use * (size_t)(p->event_count + 1));
    int64_t count = list_upgrades(s);
    for (int64_t u = 0; u < count;) {
        int32_t pair = s->upgrades[u].pair, from = chosen[pair], to = from;
        double room = s->full[pair] ? 0 : room_of(s, pair);
        for (; u < count && s->upgrades[u].pair == pair; u++) {
            if (s->full[pair]) continue;
            s->full[pair] = step_bytes(p, pair, from, s->upgrades[u].to) > room;
            if (!s->full[pair]) to = s->upgrades[u].to;
        }
        if (to == from) continue;
        double bytes = step_bytes(p, pair, from, to);
        for (int32_t k = p->first[pair]; k <= p->last[pair]; k++)
            s->use[k] += bytes;
        chosen[pair] = to;
    }
}

static void keep_better(struct solver *s, int32_t *spare, int32_t *chosen,
                        struct memory_program_result *result) {
    greedy(s, spare);
    double seconds = total_seconds(s->p, spare);
    if (seconds >= result->seconds) return;
    result->seconds = seconds;
    memcpy(chosen, spare, sizeof *chosen * (size_t)s->p->pair_count);
}

static void set_gap(struct memory_program_result *result) {
    double gap = result->seconds > 0 ? 1 - result->bound_seconds / result->seconds : 0;
    result->gap_fraction = gap > 0 ? gap : 0;
}

static void improve(struct solver *s, double gap_fraction, int32_t *spare, int32_t *chosen,
                    struct memory_program_result *result) {
    const struct memory_program *p = s->p;
    double step = 1;
    int32_t idle = 0;
    for (int32_t round = 0; round < ROUND_LIMIT; round++) {
        result->rounds++;
        double value = dual_value(s);
        idle++;
        if (value > result->bound_seconds) {
            result->bound_seconds = value;
            idle = 0;
        }
        if (idle == 8) {
            step /= 2;
            idle = 0;
        }
        set_gap(result);
        if (result->gap_fraction <= gap_fraction) return;
        add_use(p, s->trial, s->use);
        double norm = 0;
        for (int32_t k = 0; k < p->event_count; k++) {
            double over = s->use[k] - p->capacity_bytes[k];
            if (over > 0 || s->price[k] > 0) norm += over * over;
        }
        if (norm == 0) return; /* the dual's choice fits: it is optimal */
        double length = step * (result->seconds - value) / norm;
        for (int32_t k = 0; k < p->event_count; k++)
            s->price[k] = fmax(0, s->price[k] + length * (s->use[k] - p->capacity_bytes[k]));
        if (round % PRIMAL_EVERY != PRIMAL_EVERY - 1) continue;
        sum_prices(s);
        keep_better(s, spare, chosen, result);
    }
    set_gap(result);
}

void memory_program_solve(const struct memory_program *p, double gap_fraction, int32_t *chosen,
                          struct memory_program_result *result) {
    int64_t upgrades = 0;
    for (int32_t i = 0; i < p->pair_count; i++)
        upgrades += p->candidate_counts[i];
    struct solver s = { .p = p };
    size_t events = (size_t)p->event_count + 1, pairs = (size_t)p->pair_count + 1;
    double *numbers = memory_alloc(sizeof *numbers * (4 * events + 1));
    int32_t *indices = memory_alloc(sizeof *indices * 2 * pairs);
    s.price = numbers;
    s.price_sum = numbers + events;
    s.use = numbers + 2 * events + 1;
    s.least = numbers + 3 * events + 1;
    s.trial = indices;
    s.full = memory_alloc(sizeof *s.full * pairs);
    s.upgrades = memory_alloc(sizeof *s.upgrades * (size_t)(upgrades + 1));
    s.sorted = memory_alloc(sizeof *s.sorted * (size_t)(upgrades + 1));
    memset(chosen, 0, sizeof *chosen * (size_t)p->pair_count);
    add_use(p, chosen, s.least);
    *result = (struct memory_program_result){ .feasible = true,
                                              .seconds = total_seconds(p, chosen) };
    for (int32_t k = 0; k < p->event_count; k++)
        if (s.least[k] > p->capacity_bytes[k]) result->feasible = false;
    for (int32_t i = 0; i < p->pair_count; i++) /* the bound without any price */
        result->bound_seconds += candidate(p, i, p->candidate_counts[i] - 1)->seconds;
    if (result->feasible) {
        /* Equal small prices: seconds per byte and event. */
        for (int32_t k = 0; k < p->event_count; k++)
            s.price[k] = 1;
        sum_prices(&s);
        keep_better(&s, indices + pairs, chosen, result);
        memset(s.price, 0, sizeof *s.price * (size_t)p->event_count);
        improve(&s, gap_fraction, indices + pairs, chosen, result);
    }
    set_gap(result);
    free(numbers);
    free(indices);
    free(s.full);
    free(s.upgrades);
    free(s.sorted);
}
