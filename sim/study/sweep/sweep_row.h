/* sweep_row.h - one configuration of a sweep, from index to answer. Private to the sweep. */
#ifndef BALLAST_SIM_STUDY_SWEEP_ROW_H
#define BALLAST_SIM_STUDY_SWEEP_ROW_H

#include "results/record.h"
#include "sim/replay/replay.h"
#include "sim/study/sweep/configuration_table.h"
#include "sim/study/sweep/sweep_file.h"
#include "sim/study/sweep/sweep_share.h"

enum item_state {
    ITEM_REJECTED,  /* err says why, err.rule or `condition` by which rule */
    ITEM_FAILED,    /* err: a mistake in the sweep or the machine's; the sweep ends */
    ITEM_DUPLICATE, /* the same as one before */
    ITEM_ELSEWHERE, /* of another shard */
    ITEM_KNOWN,     /* answered before */
    ITEM_NEW,
    ITEM_DONE,
};

struct sweep_item {
    int64_t index;
    enum item_state state;
    struct scenario *scenario;
    const struct condition *condition; /* that does not hold */
    char configuration[CONFIGURATION_DIGITS + 1];
    /* Of all but the layout and the policies; of what the race saw as well. */
    char circumstances[CONFIGURATION_DIGITS + 1], outcome[CONFIGURATION_DIGITS + 1];
    /* Only the size of its steps hangs on the sweep's micro-batches: packed groups, of which the
     * scenario asks for samples. */
    bool rescales;
    struct shared *data, *batches, *prices;
    struct sweep_row_record row;
    const char *rule, *message; /* of a rejection, or the row's reason; the item's, freed with it */
};

/* What completed rounds have found: layouts that fit, best first, each undominated by none. */
struct incumbent {
    double total_days, gpu_days, money_usd; /* money NaN: no price */
    int64_t memory_bytes;
    uint64_t outcome; /* begin of its hash; layouts alike stand here once */
};

struct incumbents {
    struct incumbent *items;
    int64_t count, capacity;
};

void incumbents_add(struct incumbents *incumbents, const struct sweep_row_record *row);
/* Whether so many of them are no worse in everything. */
bool incumbents_dominate(const struct incumbents *incumbents, const struct incumbent *bound,
                         int64_t enough);

/* Reads the scenario and gives the configuration its hash. */
void sweep_item_resolve(struct sweep_item *item, const struct sweep_file *file,
                        const struct scenario_options *options, int64_t index);
/* Plans, prunes (incumbents NULL: not) and races it. */
void sweep_item_evaluate(struct sweep_item *item, const struct incumbents *incumbents);
void sweep_item_clear(struct sweep_item *item);
/* The figures of a replay. */
void sweep_row_answer(struct sweep_row_record *row, const struct scenario *scenario,
                      const struct replay *replay, const struct job *job, const char *status);
struct sweep_row_record sweep_row_empty(void);

#endif
