/* sweep_exchange.c - what the members of a team tell each other in a round. */
#include <stdlib.h>
#include <string.h>
#include "results/record_pack.h"
#include "sim/study/sweep/sweep_race.h"

enum { NO_CONDITION = -1 };

static int64_t condition_index(const struct sweep_run *run, const struct sweep_item *item) {
    const struct sweep_file *file = run->sweep->file;
    for (int64_t i = 0; i < file->condition_count; i++)
        if (file->conditions[i] == item->condition) return i;
    return NO_CONDITION;
}

static void pack_item(struct sweep_run *run, struct record_bytes *bytes, int64_t place) {
    const struct sweep_item *item = &run->items[place];
    record_pack_number(bytes, place);
    record_pack_number(bytes, item->state);
    record_pack_number(bytes, item->rescales);
    record_pack_text(bytes, item->configuration);
    if (item->state == ITEM_DONE) record_pack(bytes, RECORD_SWEEP_ROW, &item->row, 1);
    if (item->state != ITEM_REJECTED && item->state != ITEM_FAILED) return;
    record_pack_number(bytes, condition_index(run, item));
    record_pack_text(bytes, item->rule);
    record_pack_text(bytes, item->message);
}

static void unpack_item(struct sweep_run *run, const char **at, const char *end) {
    const int64_t place = record_unpack_number(at, end);
    const bool mine = place >= run->mine_begin && place < run->mine_end;
    struct sweep_item got = { .index = run->round_begin + place };
    got.state = (enum item_state)record_unpack_number(at, end);
    got.rescales = record_unpack_number(at, end) != 0;
    snprintf(got.configuration, sizeof got.configuration, "%s",
             record_unpack_text(at, end, run->received));
    if (got.state == ITEM_DONE) { /* its texts stay in the sweep's rows */
        int64_t one;
        struct arena *arena = mine ? run->received : run->sweep->arena;
        const struct sweep_row_record *row = record_unpack(at, end, RECORD_SWEEP_ROW, arena, &one);
        got.row = *row;
    }
    if (got.state == ITEM_REJECTED || got.state == ITEM_FAILED) {
        const int64_t condition = record_unpack_number(at, end);
        if (condition != NO_CONDITION) got.condition = run->sweep->file->conditions[condition];
        got.rule = record_unpack_text(at, end, run->received);
        const char *message = record_unpack_text(at, end, run->received);
        if (!mine) got.message = strdup(message);
    }
    if (mine) return;
    sweep_item_clear(&run->items[place]);
    run->items[place] = got;
    if (got.state == ITEM_DONE)
        run->items[place].row.configuration = run->items[place].configuration;
}

/* Of others member 0 hears what their answers rest on. */
static bool unpack_inputs(struct sweep_run *run, const char **at, const char *end,
                          struct error *err) {
    int64_t count;
    const struct sweep_input_record *inputs =
        record_unpack(at, end, RECORD_SWEEP_INPUT, run->received, &count);
    bool ok = true;
    for (int64_t i = 0; ok && run->options->store != NULL && i < count; i++)
        ok = sweep_input_check(run, inputs[i].kind, inputs[i].name, inputs[i].fingerprint, err);
    return ok;
}

bool sweep_exchange_items(struct sweep_run *run, int64_t count, struct error *err) {
    struct sweep_team *team = run->options->team;
    if (sweep_team_count(team) == 1) return true;
    arena_reset(run->received);
    struct record_bytes mine = { 0 };
    record_pack_number(&mine, run->mine_end - run->mine_begin);
    for (int64_t i = run->mine_begin; i < run->mine_end; i++)
        pack_item(run, &mine, i);
    record_pack(&mine, RECORD_SWEEP_INPUT, run->inputs + run->inputs_given,
                run->input_count - run->inputs_given);
    run->inputs_given = run->input_count;
    size_t total;
    char *all = sweep_team_gather(team, mine.bytes, mine.size, &total);
    const char *at = all, *end = all + total;
    int64_t items = 0;
    bool ok = true;
    while (at < end) {
        const int64_t part = record_unpack_number(&at, end);
        for (int64_t i = 0; i < part; i++)
            unpack_item(run, &at, end);
        items += part;
        ok = unpack_inputs(run, &at, end, err) && ok;
    }
    ballast_check(items == count);
    free(all);
    record_bytes_free(&mine);
    return sweep_team_agree(team, ok, err);
}

void sweep_exchange_known(struct sweep_run *run) {
    struct sweep_team *team = run->options->team;
    struct sweep *sweep = run->sweep;
    if (sweep_team_count(team) == 1) return;
    struct record_bytes mine = { 0 };
    record_pack_number(&mine, run->pruning);
    record_pack(&mine, RECORD_SWEEP_ROW, sweep->rows, sweep->row_count);
    size_t total;
    char *all = sweep_team_broadcast(team, mine.bytes, mine.size, &total);
    record_bytes_free(&mine);
    if (sweep_team_member(team) > 0) {
        const char *at = all, *end = all + total;
        int64_t count;
        run->pruning = (enum sweep_pruning)record_unpack_number(&at, end);
        const struct sweep_row_record *rows =
            record_unpack(&at, end, RECORD_SWEEP_ROW, sweep->arena, &count);
        for (int64_t i = 0; i < count; i++) {
            configuration_table_insert(&run->known, rows[i].configuration, sweep->row_count);
            sweep_run_add_row(run, &rows[i]);
        }
    }
    free(all);
}
