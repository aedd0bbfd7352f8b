/* memory_program.c - one candidate a stage pair under a memory limit at every event.
 *
 * Dual: with a price on each event's memory, a pair pays for its bytes at all events it is alive,
 * and each pair chooses alone; that gives a lower bound for any prices >= 0. Prices move by
 * Polyak's subgradient steps towards the best choice known. Primal: from the smallest candidates,
 * upgrades along each pair's hull in the order of seconds saved per priced byte while they fit. The
 * prices make long-lived pairs dear where memory is short. Both give a proven gap.
 *
 * Where host memory is limited too it is a second resource with prices of its own. The first choice
 * is then the smallest without host bytes, some pairs made smaller by offloading where that is too
 * much; an upgrade may trade one memory for the other, so that one which does not fit does not rule
 * out the next.
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

/* One of the two memories. */
struct resource {
    bool host;
    const double *capacity;
    double *price, *price_sum; /* by event; sums before it */
    double *use;               /* by event */
    double *least;             /* what the first choice takes, by event */
};

/* What is left at each event of the only memory, in blocks, so that a long life costs little more
 * than a short one. */
enum { BLOCK = 64 };
struct blocks {
    double *left;  /* by event, before what was taken of its whole block */
    double *least; /* by block, behind that */
    double *taken; /* by block, of each of its events */
};

struct solver {
    const struct memory_program *p;
    struct blocks blocks;
    struct resource resources[2];
    int32_t resource_count;
    struct upgrade *upgrades, *sorted; /* sorted: room for the sort */
    int32_t *trial, *start;            /* start: the first choice */
    bool *full;                        /* by pair: no further upgrade fits */
};

static const struct memory_candidate *candidate(const struct memory_program *p, int32_t pair,
                                                int32_t index) {
    return &p->candidates[pair][index];
}

static double bytes_of(const struct resource *r, const struct memory_candidate *c) {
    return r->host ? c->host_bytes : c->bytes;
}

static void add_use(const struct memory_program *p, const struct resource *r, const int32_t *chosen,
                    double *use) {
    /* Differences first, so that long lives cost no more than short ones. */
    memset(use, 0, sizeof *use * (size_t)(p->event_count + 1));
    for (int32_t i = 0; i < p->pair_count; i++) {
        double bytes = bytes_of(r, candidate(p, i, chosen[i]));
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
    for (int32_t n = 0; n < s->resource_count; n++) {
        struct resource *r = &s->resources[n];
        r->price_sum[0] = 0;
        for (int32_t k = 0; k < s->p->event_count; k++)
            r->price_sum[k + 1] = r->price_sum[k] + r->price[k];
    }
}

static double pair_price(const struct solver *s, const struct resource *r, int32_t pair) {
    return r->price_sum[s->p->last[pair] + 1] - r->price_sum[s->p->first[pair]];
}

/* Each pair on its own; returns the bound and leaves its choice in `trial`. */
static double dual_value(struct solver *s) {
    const struct memory_program *p = s->p;
    const bool two = s->resource_count > 1;
    double value = 0;
    sum_prices(s);
    for (int32_t i = 0; i < p->pair_count; i++) {
        double price = pair_price(s, &s->resources[0], i), best = INFINITY;
        double host_price = two ? pair_price(s, &s->resources[1], i) : 0;
        for (int32_t j = 0; j < p->candidate_counts[i]; j++) {
            const struct memory_candidate *c = candidate(p, i, j);
            double cost = c->seconds + price * c->bytes;
            if (two) cost += host_price * c->host_bytes;
            if (cost >= best) continue;
            best = cost;
            s->trial[i] = j;
        }
        value += best;
    }
    for (int32_t n = 0; n < s->resource_count; n++)
        for (int32_t k = 0; k < p->event_count; k++)
            value -= s->resources[n].price[k] * s->resources[n].capacity[k];
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

/* A little is asked for memory that is not short, so that small upgrades come first there too. */
static double base_price(const struct solver *s, const struct resource *r) {
    double base = 0;
    for (int32_t k = 0; k < s->p->event_count; k++)
        base += r->price[k];
    return base > 0 ? base / s->p->event_count * 1e-3 : 1;
}

/* Upgrades from each candidate to the next; candidates come sorted and undominated. */
static int64_t list_upgrades(struct solver *s) {
    const struct memory_program *p = s->p;
    int64_t count = 0;
    double base = base_price(s, &s->resources[0]);
    for (int32_t i = 0; i < p->pair_count; i++) {
        double price = pair_price(s, &s->resources[0], i) + base, worst = INFINITY;
        for (int32_t j = 1; j < p->candidate_counts[i]; j++) {
            double saved = candidate(p, i, j - 1)->seconds - candidate(p, i, j)->seconds;
            double bytes = candidate(p, i, j)->bytes - candidate(p, i, j - 1)->bytes;
            double value = saved / (bytes * price);
            if (value > worst) value = worst; /* a later upgrade never before an earlier one */
            worst = value;
            s->upgrades[count++] = (struct upgrade){ i, j, value };
        }
    }
    return count;
}

/* Upgrades along the hull that begins with the pair's first choice, sizes weighed with the prices
 * of both memories. */
static int64_t list_weighed_upgrades(struct solver *s) {
    const struct memory_program *p = s->p;
    int64_t count = 0;
    double base = base_price(s, &s->resources[0]), host_base = base_price(s, &s->resources[1]);
    for (int32_t i = 0; i < p->pair_count; i++) {
        double price = pair_price(s, &s->resources[0], i) + base, worst = INFINITY;
        double host_price = pair_price(s, &s->resources[1], i) + host_base;
        for (int32_t from = s->start[i], to; from >= 0; from = to) {
            const struct memory_candidate *now = candidate(p, i, from);
            double best = 0;
            to = -1;
            for (int32_t j = 0; j < p->candidate_counts[i]; j++) {
                const struct memory_candidate *next = candidate(p, i, j);
                double saved = now->seconds - next->seconds;
                if (saved <= 0) continue;
                double size = price * (next->bytes - now->bytes) +
                              host_price * (next->host_bytes - now->host_bytes);
                double value = size > 0 ? saved / size : INFINITY;
                if (value <= best &&
                    (value < best || now->seconds - candidate(p, i, to)->seconds >= saved))
                    continue;
                best = value;
                to = j;
            }
            if (to < 0) break;
            if (best > worst) best = worst;
            worst = best;
            s->upgrades[count++] = (struct upgrade){ i, to, best };
        }
    }
    return count;
}

enum { LANES = 4 };

/* What is left at the fullest event of the pair's life; in lanes, which need not wait for each
 * other. */
static double room_of(const struct solver *s, const struct resource *r, int32_t pair) {
    const double *use = r->use, *capacity = r->capacity;
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

/* ---- one memory, in blocks ---- */

static void measure_block(const struct solver *s, int32_t block) {
    const int32_t events = s->p->event_count, begin = block * BLOCK,
                  end = begin + BLOCK < events ? begin + BLOCK : events;
    double least = INFINITY;
    for (int32_t k = begin; k < end; k++)
        least = s->blocks.left[k] < least ? s->blocks.left[k] : least;
    s->blocks.least[block] = least - s->blocks.taken[block];
}

/* As the first choice leaves it. */
static void fill_blocks(struct solver *s) {
    const struct resource *r = &s->resources[0];
    for (int32_t k = 0; k < s->p->event_count; k++)
        s->blocks.left[k] = r->capacity[k] - r->least[k];
    for (int32_t b = 0; b * BLOCK < s->p->event_count; b++) {
        s->blocks.taken[b] = 0;
        measure_block(s, b);
    }
}

static double least_left(const struct solver *s, int32_t first, int32_t last) {
    double least = INFINITY;
    for (int32_t k = first; k <= last; k++)
        least = s->blocks.left[k] < least ? s->blocks.left[k] : least;
    return least - s->blocks.taken[first / BLOCK];
}

/* room_of() of the only memory. */
static double block_room(const struct solver *s, int32_t pair) {
    const int32_t first = s->p->first[pair], last = s->p->last[pair];
    const int32_t from = first / BLOCK, to = last / BLOCK;
    if (from == to) return least_left(s, first, last);
    double least =
        fmin(least_left(s, first, from * BLOCK + BLOCK - 1), least_left(s, to * BLOCK, last));
    for (int32_t b = from + 1; b < to; b++)
        least = s->blocks.least[b] < least ? s->blocks.least[b] : least;
    return least;
}

static void take_part(struct solver *s, int32_t first, int32_t last, double bytes) {
    for (int32_t k = first; k <= last; k++)
        s->blocks.left[k] -= bytes;
    measure_block(s, first / BLOCK);
}

static void take_blocks(struct solver *s, int32_t pair, double bytes) {
    const int32_t first = s->p->first[pair], last = s->p->last[pair];
    const int32_t from = first / BLOCK, to = last / BLOCK;
    if (from == to) {
        take_part(s, first, last, bytes);
        return;
    }
    take_part(s, first, from * BLOCK + BLOCK - 1, bytes);
    take_part(s, to * BLOCK, last, bytes);
    for (int32_t b = from + 1; b < to; b++) {
        s->blocks.taken[b] += bytes;
        s->blocks.least[b] -= bytes;
    }
}

static double step_bytes(const struct memory_program *p, int32_t pair, int32_t from, int32_t to) {
    return candidate(p, pair, to)->bytes - candidate(p, pair, from)->bytes;
}

static void move_use(const struct memory_program *p, struct resource *r, int32_t pair, int32_t from,
                     int32_t to) {
    double bytes = bytes_of(r, candidate(p, pair, to)) - bytes_of(r, candidate(p, pair, from));
    if (bytes == 0) return;
    for (int32_t k = p->first[pair]; k <= p->last[pair]; k++)
        r->use[k] += bytes;
}

/* Use only grows and a later upgrade of a pair is larger, so one that does not fit is its last.
 * Upgrades of a pair that follow each other, as those of equal layers do, are taken together. */
static void take_upgrades(struct solver *s, int64_t count, int32_t *chosen) {
    const struct memory_program *p = s->p;
    memset(s->full, 0, sizeof *s->full * (size_t)p->pair_count);
    fill_blocks(s);
    for (int64_t u = 0; u < count;) {
        int32_t pair = s->upgrades[u].pair, from = chosen[pair], to = from;
        double room = s->full[pair] ? 0 : block_room(s, pair);
        for (; u < count && s->upgrades[u].pair == pair; u++) {
            if (s->full[pair]) continue;
            s->full[pair] = step_bytes(p, pair, from, s->upgrades[u].to) > room;
            if (!s->full[pair]) to = s->upgrades[u].to;
        }
        if (to == from) continue;
        take_blocks(s, pair, step_bytes(p, pair, from, to));
        chosen[pair] = to;
    }
}

static bool move_fits(const struct solver *s, int32_t pair, int32_t from, int32_t to) {
    for (int32_t n = 0; n < s->resource_count; n++) {
        const struct resource *r = &s->resources[n];
        double bytes =
            bytes_of(r, candidate(s->p, pair, to)) - bytes_of(r, candidate(s->p, pair, from));
        if (bytes > 0 && bytes > room_of(s, r, pair)) return false;
    }
    return true;
}

static void move_pair(struct solver *s, int32_t pair, int32_t to, int32_t *chosen) {
    for (int32_t n = 0; n < s->resource_count; n++)
        move_use(s->p, &s->resources[n], pair, chosen[pair], to);
    chosen[pair] = to;
}

/* With two memories. */
static void take_weighed_upgrades(struct solver *s, int64_t count, int32_t *chosen) {
    for (int64_t u = 0; u < count; u++) {
        int32_t pair = s->upgrades[u].pair, to = s->upgrades[u].to;
        if (candidate(s->p, pair, to)->seconds < candidate(s->p, pair, chosen[pair])->seconds &&
            move_fits(s, pair, chosen[pair], to))
            move_pair(s, pair, to, chosen);
    }
}

static void greedy(struct solver *s, int32_t *chosen) {
    const struct memory_program *p = s->p;
    memcpy(chosen, s->start, sizeof *chosen * (size_t)p->pair_count);
    const bool two = s->resource_count > 1;
    for (int32_t n = 0; two && n < s->resource_count; n++)
        memcpy(s->resources[n].use, s->resources[n].least,
               sizeof(double) * (size_t)(p->event_count + 1));
    int64_t count = two ? list_weighed_upgrades(s) : list_upgrades(s);
    if (count > 0) sort_upgrades(s, count);
    if (two)
        take_weighed_upgrades(s, count, chosen);
    else
        take_upgrades(s, count, chosen);
}

static bool within(const struct solver *s, int32_t pair) {
    for (int32_t n = 0; n < s->resource_count; n++)
        if (room_of(s, &s->resources[n], pair) < 0) return false;
    return true;
}

/* Another pair's move that lets this one stand where it was moved to, for less than saved_seconds;
 * false: there is none. */
static bool make_way(struct solver *s, int32_t pair, double saved_seconds, int32_t *chosen,
                     int64_t *tries) {
    const struct memory_program *p = s->p;
    for (int32_t i = 0; i < p->pair_count; i++) {
        if (i == pair || p->last[i] < p->first[pair] || p->first[i] > p->last[pair]) continue;
        const int32_t from = chosen[i];
        for (int32_t j = 0; j < p->candidate_counts[i]; j++) {
            const double lost = candidate(p, i, j)->seconds - candidate(p, i, from)->seconds;
            if (j == from || lost >= saved_seconds * (1 - 1e-9)) continue;
            if (--*tries < 0) return false;
            move_pair(s, i, j, chosen);
            if (within(s, i) && within(s, pair)) return true;
            move_pair(s, i, from, chosen);
        }
    }
    return false;
}

enum { EXCHANGE_TRIES = 4000, FEW_PAIRS = 64 };

/* With two memories and few pairs whole candidates leave gaps that the order of upgrades does not
 * see: one pair becomes faster and another one makes way for it, as long as that pays. */
static void exchange(struct solver *s, int32_t *chosen) {
    const struct memory_program *p = s->p;
    int64_t tries = EXCHANGE_TRIES;
    for (bool again = true; again && tries > 0;) {
        again = false;
        for (int32_t i = 0; i < p->pair_count && tries > 0; i++)
            for (int32_t j = 0; j < p->candidate_counts[i] && tries > 0; j++) {
                const int32_t from = chosen[i];
                const double saved = candidate(p, i, from)->seconds - candidate(p, i, j)->seconds;
                if (saved <= 0) continue;
                tries--;
                move_pair(s, i, j, chosen);
                if (within(s, i) || make_way(s, i, saved, chosen, &tries))
                    again = true;
                else
                    move_pair(s, i, from, chosen);
            }
    }
}

static void keep_better(struct solver *s, int32_t *spare, int32_t *chosen,
                        struct memory_program_result *result) {
    greedy(s, spare);
    if (s->resource_count > 1 && s->p->pair_count <= FEW_PAIRS) exchange(s, spare);
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
        double norm = 0;
        for (int32_t n = 0; n < s->resource_count; n++) {
            struct resource *r = &s->resources[n];
            add_use(p, r, s->trial, r->use);
            for (int32_t k = 0; k < p->event_count; k++) {
                double over = r->use[k] - r->capacity[k];
                if (over > 0 || r->price[k] > 0) norm += over * over;
            }
        }
        if (norm == 0) return; /* the dual's choice fits: it is optimal */
        double length = step * (result->seconds - value) / norm;
        for (int32_t n = 0; n < s->resource_count; n++) {
            struct resource *r = &s->resources[n];
            for (int32_t k = 0; k < p->event_count; k++)
                r->price[k] = fmax(0, r->price[k] + length * (r->use[k] - r->capacity[k]));
        }
        if (round % PRIMAL_EVERY != PRIMAL_EVERY - 1) continue;
        sum_prices(s);
        keep_better(s, spare, chosen, result);
    }
    set_gap(result);
}

/* The same for the best choice of many. */
static void polish(struct solver *s, int32_t *chosen, struct memory_program_result *result) {
    for (int32_t n = 0; n < s->resource_count; n++)
        add_use(s->p, &s->resources[n], chosen, s->resources[n].use);
    exchange(s, chosen);
    result->seconds = total_seconds(s->p, chosen);
}

static bool all_fits(const struct solver *s) {
    for (int32_t n = 0; n < s->resource_count; n++)
        for (int32_t k = 0; k < s->p->event_count; k++)
            if (s->resources[n].least[k] > s->resources[n].capacity[k]) return false;
    return true;
}

/* Where the smallest without host bytes are too much: the smallest of all for pairs alive there, as
 * long as the host has room. */
static void shrink(struct solver *s) {
    const struct memory_program *p = s->p;
    struct resource *gpu = &s->resources[0];
    for (int32_t n = 0; n < s->resource_count; n++)
        memcpy(s->resources[n].use, s->resources[n].least,
               sizeof(double) * (size_t)(p->event_count + 1));
    for (int32_t i = 0; i < p->pair_count; i++) {
        if (s->start[i] == 0 || room_of(s, gpu, i) >= 0) continue;
        if (move_fits(s, i, s->start[i], 0)) move_pair(s, i, 0, s->start);
    }
    for (int32_t n = 0; n < s->resource_count; n++)
        memcpy(s->resources[n].least, s->resources[n].use,
               sizeof(double) * (size_t)(p->event_count + 1));
}

/* Returns whether the first choice fits. */
static bool begin(struct solver *s) {
    const struct memory_program *p = s->p;
    const bool two = s->resource_count > 1;
    for (int32_t i = 0; i < p->pair_count; i++) {
        s->start[i] = 0;
        while (two && candidate(p, i, s->start[i])->host_bytes > 0 &&
               s->start[i] + 1 < p->candidate_counts[i])
            s->start[i]++;
    }
    for (int32_t n = 0; n < s->resource_count; n++)
        add_use(p, &s->resources[n], s->start, s->resources[n].least);
    if (!two || all_fits(s)) return all_fits(s);
    shrink(s);
    return all_fits(s);
}

/* No memory is short: the fastest of each pair. */
static double free_seconds(const struct memory_program *p) {
    double sum = 0;
    for (int32_t i = 0; i < p->pair_count; i++) {
        double least = INFINITY;
        for (int32_t j = 0; j < p->candidate_counts[i]; j++)
            least = fmin(least, candidate(p, i, j)->seconds);
        sum += least;
    }
    return sum;
}

static double *make_room(struct solver *s, int64_t upgrades) {
    size_t events = (size_t)s->p->event_count + 1, pairs = (size_t)s->p->pair_count + 1;
    const size_t blocks = events / BLOCK + 1;
    double *numbers = memory_alloc(sizeof *numbers * (2 * (4 * events + 1) + events + 2 * blocks));
    double *left = numbers + 2 * (4 * events + 1);
    s->blocks = (struct blocks){ left, left + events, left + events + blocks };
    for (int32_t n = 0; n < 2; n++) {
        double *at = numbers + (size_t)n * (4 * events + 1);
        s->resources[n] = (struct resource){
            .host = n > 0,
            .capacity = n > 0 ? s->p->host_capacity_bytes : s->p->capacity_bytes,
            .price = at,
            .price_sum = at + events,
            .use = at + 2 * events + 1,
            .least = at + 3 * events + 1,
        };
    }
    s->trial = memory_alloc(sizeof *s->trial * 3 * pairs);
    s->start = s->trial + pairs;
    s->full = memory_alloc(sizeof *s->full * pairs);
    s->upgrades = memory_alloc(sizeof *s->upgrades * (size_t)(upgrades + 1));
    s->sorted = memory_alloc(sizeof *s->sorted * (size_t)(upgrades + 1));
    return numbers;
}

static void set_prices(struct solver *s, double price) {
    for (int32_t n = 0; n < s->resource_count; n++)
        for (int32_t k = 0; k < s->p->event_count; k++)
            s->resources[n].price[k] = price;
}

void memory_program_solve(const struct memory_program *p, double gap_fraction, int32_t *chosen,
                          struct memory_program_result *result) {
    int64_t upgrades = 0;
    for (int32_t i = 0; i < p->pair_count; i++)
        upgrades += p->candidate_counts[i];
    struct solver s = { .p = p, .resource_count = p->host_capacity_bytes != NULL ? 2 : 1 };
    double *numbers = make_room(&s, upgrades);
    int32_t *spare = s.trial + 2 * ((size_t)p->pair_count + 1);
    result->feasible = begin(&s);
    memcpy(chosen, s.start, sizeof *chosen * (size_t)p->pair_count);
    *result = (struct memory_program_result){ .feasible = result->feasible,
                                              .seconds = total_seconds(p, chosen),
                                              .bound_seconds = free_seconds(p) };
    if (result->feasible) {
        set_prices(&s, 1); /* equal small prices: seconds per byte and event */
        sum_prices(&s);
        keep_better(&s, spare, chosen, result);
        set_prices(&s, 0);
        improve(&s, gap_fraction, spare, chosen, result);
        if (s.resource_count > 1) polish(&s, chosen, result);
    }
    set_gap(result);
    free(numbers);
    free(s.trial);
    free(s.full);
    free(s.upgrades);
    free(s.sorted);
}
