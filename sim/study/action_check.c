/* action_check.c - an independent reading of action lists: no code is shared with what makes
 * them. */
#include "sim/study/action_check.h"

#include <math.h>
#include <string.h>
#include "sim/base/field.h"
#include "sim/base/json.h"

enum kind { FW, BW, ISEND, IRECV, WAIT_ISEND, WAIT_IRECV, KIND_COUNT };
static const char *const kind_names[KIND_COUNT + 1] = { "fw_stage", "bw_stage",   "isend",
                                                        "irecv",    "wait_isend", "wait_irecv",
                                                        NULL };

/* Keys of each object of the file. */
static const char *const root_keys[] = { "format",         "scenario",    "iteration",
                                         "dp_rank",        "micro_batch_count",
                                         "makespan_ns",    "lower_bound_ns",
                                         "modules",        "ranks",       NULL };
static const char *const module_keys[] = { "first_chunk", "chunk_count", "sub_microbatches", NULL };
static const char *const rank_keys[] = { "rank", "activation_capacity_bytes", "host_capacity_bytes",
                                         "actions", NULL };
static const char *const pass_keys[] = {
    "action",           "chunk",          "micro_batch",      "sub",
    "start_ns",         "finish_ns",      "activation_bytes", "workspace_bytes",
    "recompute_blocks", "offload_blocks", "host_bytes",       NULL
};
static const char *const send_keys[] = { "action",  "chunk", "micro_batch", "sub",
                                         "carries", "peer",  "arrival_ns",  NULL };
static const char *const message_keys[] = { "action",  "chunk", "micro_batch", "sub",
                                            "carries", "peer",  NULL };
static const char *const recompute_keys[] = { "none", "selective", "full", NULL };
static const char *const carried_names[] = { "activation", "gradient", NULL };

struct item {
    enum kind kind;
    int64_t chunk, micro_batch, sub, peer, start_ns, finish_ns, arrival_ns;
    bool gradient;
    double bytes, workspace_bytes, host_bytes;
    int64_t blocks[6]; /* in the order of recompute_keys: all, then those offloaded */
};

/* What is known of a pass, or of the message it sends, by (chunk, rank, micro-batch, sub, way). */
struct slot {
    int64_t start_ns, finish_ns; /* -1: not in the file */
    int64_t arrival_ns;          /* of its message; -1: none */
    int64_t sends, receives, send_waits, receive_waits;
    bool used_early; /* its reader's list has the pass before the wait */
    int64_t executed_ns, message_ns; /* when the lists are executed; -1: not yet */
    double bytes, host_bytes;
    int64_t blocks[6];
};

/* Most basic first: one of a later class may follow from one of an earlier class. */
enum fault_class {
    FAULT_PASS,    /* one that is missing, or stands there twice */
    FAULT_MESSAGE, /* sent, received and waited for once, by whom it concerns */
    FAULT_ORDER,
    FAULT_CHOICE, /* bytes and recomputation of a forward and its backward */
    FAULT_TIME,
    FAULT_OVERLAP,
    FAULT_MEMORY,
    FAULT_CLASS_COUNT
};

struct found_fault {
    enum fault_class class;
    int64_t micro_batch, other; /* it concerns; other: -1, or a second one; of memory the rank */
    const char *text;
};

struct checker {
    struct arena *arena;
    struct found_fault *all;
    int64_t found_count, found_room;
    const struct json *json;
    struct error *err;
    struct action_check *out;
    int64_t modules, chunks, subs_limit, late_rank; /* ends after the makespan; -1: none */
    int64_t *module_of_chunk; /* by chunk */
    int64_t *subs;            /* [module x micro-batches + micro-batch] */
    struct item **items;      /* by rank */
    int64_t *item_count;
    double *host_capacity_bytes; /* by rank; INFINITY: not stated */
    struct slot *slots;
};

enum { FOUND_LIMIT = 100000 }; /* more are not worth telling apart */

static void fault(struct checker *c, enum fault_class class, int64_t micro_batch, int64_t other,
                  const char *text) {
    if (c->found_count == FOUND_LIMIT) return;
    if (c->found_count == c->found_room) {
        struct found_fault *larger =
            arena_array(c->arena, struct found_fault, 2 * c->found_room + 64);
        if (c->found_count > 0)
            memcpy(larger, c->all, sizeof *larger * (size_t)c->found_count);
        c->all = larger;
        c->found_room = 2 * c->found_room + 64;
    }
    c->all[c->found_count++] = (struct found_fault){ class, micro_batch, other, text };
}

static void tell(struct checker *c, const char *text) {
    if (c->out->fault_count < ACTION_FAULT_LIMIT) c->out->faults[c->out->fault_count] = text;
    c->out->fault_count++;
}

/* A micro-batch is told of once, by its most basic fault. Memory once a rank, and not where passes
 * are missing, out of order or free other bytes than they took. */
static void tell_faults(struct checker *c) {
    bool *told_of = arena_array(c->arena, bool, c->out->micro_batch_count);
    bool *full = arena_array(c->arena, bool, c->out->rank_count), memory = true;
    for (int class = 0; class < FAULT_CLASS_COUNT; class++)
        for (int64_t i = 0; i < c->found_count; i++) {
            const struct found_fault *f = &c->all[i];
            if (f->class != (enum fault_class)class) continue;
            bool *first = class == FAULT_MEMORY ? &full[f->other] : &told_of[f->micro_batch];
            bool follows = *first || (class == FAULT_MEMORY && !memory) ||
                           (class == FAULT_OVERLAP && told_of[f->other]);
            if (class == FAULT_PASS || class == FAULT_ORDER || class == FAULT_CHOICE)
                memory = false;
            *first = true;
            if (follows)
                c->out->follow_count++;
            else
                tell(c, f->text);
        }
}

/* ---- reading ---- */

static bool whole(struct checker *c, const cJSON *object, const char *key, int64_t least,
                  int64_t most, int64_t *value) {
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, key);
    if (node == NULL)
        return json_error(c->json, object, c->err, NULL, "\"%s\" is missing", key);
    if (!cJSON_IsNumber(node) || !(node->valuedouble >= (double)least) ||
        !(node->valuedouble <= (double)most) ||
        node->valuedouble != (double)(int64_t)node->valuedouble)
        return json_error(c->json, node, c->err, NULL,
                          "\"%s\" must be a whole number from %ld to %ld", key, (long)least,
                          (long)most);
    *value = (int64_t)node->valuedouble;
    return true;
}

static bool is_in(const char *const *names, const char *text) {
    while (*names != NULL && strcmp(*names, text) != 0)
        names++;
    return *names != NULL;
}

static const char *near_hint(struct checker *c, const char *text, const char *const *names) {
    const char *near = nearest_in_list(text, names), *all = "one of";
    if (near != NULL) return arena_format(c->arena, "did you mean \"%s\"?", near);
    for (int i = 0; names[i] != NULL; i++)
        all = arena_format(c->arena, "%s%s %s", all, i > 0 ? "," : "", names[i]);
    return all;
}

static bool only_keys(struct checker *c, const cJSON *object, const char *const *keys,
                      const char *what) {
    if (!cJSON_IsObject(object))
        return json_error(c->json, object, c->err, NULL, "%s is an object { ... }", what);
    for (const cJSON *child = object->child; child != NULL; child = child->next)
        if (!is_in(keys, child->string))
            return json_key_error(c->json, child, c->err, near_hint(c, child->string, keys),
                                  "unknown key \"%s\" in %s", child->string, what);
    return true;
}

static bool list(struct checker *c, const cJSON *object, const char *key, const cJSON **node) {
    *node = cJSON_GetObjectItemCaseSensitive(object, key);
    if (cJSON_IsArray(*node) && cJSON_GetArraySize(*node) > 0) return true;
    return json_error(c->json, *node != NULL ? *node : object, c->err, NULL,
                      "\"%s\" must be a list with entries", key);
}

enum { LIMIT = 1000000, SLOT_LIMIT = 20000000 };
#define TIME_LIMIT (INT64_C(1) << 52)

static bool read_modules(struct checker *c, const cJSON *root) {
    const cJSON *modules, *node, *counts, *count;
    if (!list(c, root, "modules", &modules)) return false;
    c->modules = cJSON_GetArraySize(modules);
    c->subs = arena_array(c->arena, int64_t, c->modules * c->out->micro_batch_count);
    c->module_of_chunk = arena_array(c->arena, int64_t, LIMIT / 100);
    int64_t module = 0;
    cJSON_ArrayForEach(node, modules) {
        int64_t first, chunks, m = 0;
        if (!only_keys(c, node, module_keys, "a module") ||
            !whole(c, node, "first_chunk", 0, LIMIT / 100, &first) ||
            !whole(c, node, "chunk_count", 1, LIMIT / 100, &chunks) ||
            !list(c, node, "sub_microbatches", &counts))
            return false;
        if (first != c->chunks || first + chunks > LIMIT / 100 ||
            cJSON_GetArraySize(counts) != c->out->micro_batch_count)
            return json_error(c->json, node, c->err, NULL,
                              "modules hold consecutive chunks and a count for each micro-batch");
        for (; c->chunks < first + chunks; c->chunks++)
            c->module_of_chunk[c->chunks] = module;
        cJSON_ArrayForEach(count, counts) {
            if (!cJSON_IsNumber(count) || !(count->valuedouble >= 0) ||
                !(count->valuedouble < 32768))
                return json_error(c->json, count, c->err, NULL, "must be 0 to 32767");
            int64_t *subs = &c->subs[module * c->out->micro_batch_count + m++];
            *subs = (int64_t)count->valuedouble;
            if (*subs > c->subs_limit) c->subs_limit = *subs;
        }
        module++;
    }
    return true;
}

/* counts: in the order of recompute_keys. */
static bool read_blocks(struct checker *c, const cJSON *node, const char *key, int64_t *counts) {
    const cJSON *blocks = cJSON_GetObjectItemCaseSensitive(node, key);
    if (blocks != NULL && !only_keys(c, blocks, recompute_keys, key)) return false;
    for (int k = 0; k < 3; k++)
        if (cJSON_GetObjectItemCaseSensitive(blocks, recompute_keys[k]) != NULL &&
            !whole(c, blocks, recompute_keys[k], 0, LIMIT, &counts[k]))
            return false;
    return true;
}

static bool read_item(struct checker *c, const cJSON *node, struct item *item) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(node, "action");
    *item = (struct item){ .kind = KIND_COUNT };
    for (int k = 0; cJSON_IsString(name) && k < KIND_COUNT; k++)
        if (strcmp(name->valuestring, kind_names[k]) == 0) item->kind = (enum kind)k;
    if (item->kind == KIND_COUNT)
        return json_error(c->json, name != NULL ? name : node, c->err,
                          near_hint(c, cJSON_IsString(name) ? name->valuestring : "", kind_names),
                          "unknown action");
    if (!only_keys(c, node,
                   item->kind <= BW       ? pass_keys
                   : item->kind == ISEND ? send_keys
                                         : message_keys,
                   kind_names[item->kind]))
        return false;
    if (!whole(c, node, "chunk", 0, c->chunks - 1, &item->chunk) ||
        !whole(c, node, "micro_batch", 0, c->out->micro_batch_count - 1, &item->micro_batch) ||
        !whole(c, node, "sub", 0, c->subs_limit, &item->sub))
        return false;
    if (item->kind >= ISEND) {
        const cJSON *carries = cJSON_GetObjectItemCaseSensitive(node, "carries");
        if (!cJSON_IsString(carries))
            return json_error(c->json, node, c->err, NULL, "\"carries\" is missing");
        if (!is_in(carried_names, carries->valuestring))
            return json_error(c->json, carries, c->err,
                              near_hint(c, carries->valuestring, carried_names),
                              "a message carries no \"%s\"", carries->valuestring);
        item->gradient = strcmp(carries->valuestring, "gradient") == 0;
        return whole(c, node, "peer", 0, c->out->rank_count - 1, &item->peer) &&
               (item->kind != ISEND ||
                whole(c, node, "arrival_ns", 0, TIME_LIMIT, &item->arrival_ns));
    }
    int64_t bytes, workspace;
    if (!whole(c, node, "start_ns", 0, TIME_LIMIT, &item->start_ns) ||
        !whole(c, node, "finish_ns", 0, TIME_LIMIT, &item->finish_ns) ||
        !whole(c, node, "activation_bytes", 0, TIME_LIMIT, &bytes) ||
        !whole(c, node, "workspace_bytes", 0, TIME_LIMIT, &workspace))
        return false;
    int64_t host = 0;
    if (!read_blocks(c, node, "recompute_blocks", item->blocks) ||
        !read_blocks(c, node, "offload_blocks", item->blocks + 3) ||
        (cJSON_GetObjectItemCaseSensitive(node, "host_bytes") != NULL &&
         !whole(c, node, "host_bytes", 0, TIME_LIMIT, &host)))
        return false;
    item->host_bytes = (double)host;
    item->gradient = item->kind == BW;
    item->bytes = (double)bytes;
    item->workspace_bytes = (double)workspace;
    return true;
}

static bool read_ranks(struct checker *c, const cJSON *ranks) {
    const cJSON *node, *actions, *action;
    int64_t rank = 0;
    cJSON_ArrayForEach(node, ranks) {
        int64_t number, capacity, at = 0;
        if (!only_keys(c, node, rank_keys, "a rank") ||
            !whole(c, node, "rank", 0, c->out->rank_count - 1, &number))
            return false;
        if (number != rank)
            return json_error(c->json, node, c->err, NULL,
                              "ranks stand in order: rank %ld is expected here, not %ld",
                              (long)rank, (long)number);
        if (!whole(c, node, "activation_capacity_bytes", -TIME_LIMIT, TIME_LIMIT, &capacity) ||
            !list(c, node, "actions", &actions))
            return false;
        c->out->capacity_bytes[rank] = (double)capacity;
        c->host_capacity_bytes[rank] = INFINITY;
        if (cJSON_GetObjectItemCaseSensitive(node, "host_capacity_bytes") != NULL) {
            if (!whole(c, node, "host_capacity_bytes", 0, TIME_LIMIT, &capacity)) return false;
            c->host_capacity_bytes[rank] = (double)capacity;
        }
        c->item_count[rank] = cJSON_GetArraySize(actions);
        c->items[rank] = arena_array(c->arena, struct item, c->item_count[rank]);
        cJSON_ArrayForEach(action, actions) {
            if (!read_item(c, action, &c->items[rank][at++])) return false;
        }
        rank++;
    }
    return true;
}

static bool read_file(struct checker *c, const cJSON *root) {
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format"), *ranks;
    const cJSON *scenario = cJSON_GetObjectItemCaseSensitive(root, "scenario");
    if (!cJSON_IsString(format) || strcmp(format->valuestring, "ballast-actions-1") != 0)
        return json_error(c->json, format != NULL ? format : root, c->err,
                          "`ballast plan SCENARIO --emit actions` writes one",
                          "\"format\" is not \"ballast-actions-1\"");
    if (!only_keys(c, root, root_keys, "a list of actions")) return false;
    c->out->scenario = arena_text(c->arena, cJSON_IsString(scenario) ? scenario->valuestring : "");
    if (!whole(c, root, "micro_batch_count", 1, LIMIT, &c->out->micro_batch_count) ||
        !whole(c, root, "makespan_ns", 0, TIME_LIMIT, &c->out->makespan_ns) ||
        !list(c, root, "ranks", &ranks))
        return false;
    if (cJSON_GetObjectItemCaseSensitive(root, "lower_bound_ns") != NULL &&
        !whole(c, root, "lower_bound_ns", 0, TIME_LIMIT, &c->out->lower_bound_ns))
        return false;
    c->out->rank_count = cJSON_GetArraySize(ranks);
    int64_t n = c->out->rank_count;
    c->out->capacity_bytes = arena_array(c->arena, double, n);
    c->host_capacity_bytes = arena_array(c->arena, double, n);
    c->out->peak_bytes = arena_array(c->arena, double, n);
    c->items = arena_array(c->arena, struct item *, n);
    c->item_count = arena_array(c->arena, int64_t, n);
    if (!read_modules(c, root)) return false;
    if ((double)c->chunks * (double)n * (double)c->out->micro_batch_count * (double)c->subs_limit >
        (double)SLOT_LIMIT)
        return json_error(c->json, ranks, c->err, NULL, "too many passes to check");
    return read_ranks(c, ranks);
}

/* ---- where things stand ---- */

static int64_t subs_of(const struct checker *c, int64_t chunk, int64_t micro_batch) {
    return c->subs[c->module_of_chunk[chunk] * c->out->micro_batch_count + micro_batch];
}

static struct slot *slot_of(const struct checker *c, int64_t chunk, int64_t rank,
                            int64_t micro_batch, int64_t sub, bool gradient) {
    int64_t index = (chunk * c->out->rank_count + rank) * c->out->micro_batch_count + micro_batch;
    return &c->slots[2 * (index * c->subs_limit + sub) + gradient];
}

static const char *told(struct checker *c, int64_t rank, const struct item *i, const char *what) {
    return arena_format(
        c->arena, "rank %ld: %s of chunk %ld, micro-batch %ld, sub-microbatch %ld %s", (long)rank,
        kind_names[i->kind], (long)i->chunk, (long)i->micro_batch, (long)i->sub, what);
}

static void found(struct checker *c, enum fault_class class, int64_t rank, const struct item *i,
                  const char *what) {
    fault(c, class, i->micro_batch, -1, told(c, rank, i, what));
}

/* The pass before a forward, or after a backward, over ranks and chunks; false: none. */
static bool neighbour(const struct checker *c, int64_t chunk, int64_t rank, bool gradient,
                      int64_t *other_chunk, int64_t *other_rank) {
    int64_t place = chunk * c->out->rank_count + rank + (gradient ? 1 : -1);
    if (place < 0 || place >= c->chunks * c->out->rank_count) return false;
    *other_chunk = place / c->out->rank_count;
    *other_rank = place % c->out->rank_count;
    return true;
}

/* Where the message of a pass goes; -1: nowhere. */
static int64_t receiver_of(const struct checker *c, int64_t chunk, int64_t sender, bool gradient) {
    int64_t place = chunk * c->out->rank_count + sender + (gradient ? -1 : 1);
    if (place < 0 || place >= c->chunks * c->out->rank_count) return -1;
    return place % c->out->rank_count;
}

static void units_before(const struct checker *c, int64_t chunk, int64_t from_chunk,
                         int64_t micro_batch, int64_t sub, int64_t *first, int64_t *last) {
    bool same = c->module_of_chunk[from_chunk] == c->module_of_chunk[chunk];
    *first = same ? sub : 0;
    *last = same ? sub + 1 : subs_of(c, from_chunk, micro_batch);
}

/* ---- every pass once, one at a time, in its memory ---- */

/* Of inputs from other ranks, those that this list has not waited for by now. */
static void note_early_use(struct checker *c, int64_t rank, const struct item *i) {
    int64_t from_chunk, from_rank, first, last;
    if (!neighbour(c, i->chunk, rank, i->gradient, &from_chunk, &from_rank)) return;
    if (from_rank == rank) return;
    units_before(c, i->chunk, from_chunk, i->micro_batch, i->sub, &first, &last);
    for (int64_t s = first; s < last; s++) {
        struct slot *input = slot_of(c, from_chunk, from_rank, i->micro_batch, s, i->gradient);
        if (input->receive_waits == 0) input->used_early = true;
    }
}

static bool same_blocks(const int64_t *a, const int64_t *b) {
    return memcmp(a, b, 3 * sizeof *a) == 0;
}

/* before: the rank's pass before it, or NULL. */
static void enter_pass(struct checker *c, int64_t rank, const struct item *i,
                       const struct item *before, double *live, double *host) {
    c->out->pass_count++;
    struct slot *slot = slot_of(c, i->chunk, rank, i->micro_batch, i->sub, i->gradient);
    if (slot->start_ns >= 0) found(c, FAULT_PASS, rank, i, "stands there twice");
    if (i->finish_ns < i->start_ns) found(c, FAULT_TIME, rank, i, "ends before it starts");
    if (i->finish_ns == i->start_ns && i->bytes > 0)
        found(c, FAULT_TIME, rank, i, "takes no time, though it keeps activations");
    if (before != NULL && i->start_ns < before->finish_ns)
        fault(c, FAULT_OVERLAP, i->micro_batch, before->micro_batch,
              told(c, rank, i, "starts before the pass before it ends"));
    slot->start_ns = i->start_ns;
    slot->finish_ns = i->finish_ns;
    slot->bytes = i->bytes;
    slot->host_bytes = i->host_bytes;
    memcpy(slot->blocks, i->blocks, sizeof slot->blocks);
    note_early_use(c, rank, i);
    for (int k = 0; k < 3; k++)
        if (i->blocks[3 + k] > i->blocks[k])
            found(c, FAULT_CHOICE, rank, i, "offloads more blocks than it has");
    if (!i->gradient) *live += i->bytes;
    if (!i->gradient) *host += i->host_bytes;
    if (*host > c->host_capacity_bytes[rank] + 4096)
        fault(c, FAULT_MEMORY, i->micro_batch, rank,
              told(c, rank, i, "does not fit in host memory"));
    if (*live + i->workspace_bytes > c->out->peak_bytes[rank])
        c->out->peak_bytes[rank] = *live + i->workspace_bytes;
    /* Bytes are written as whole numbers. */
    if (*live + i->workspace_bytes > c->out->capacity_bytes[rank] + 4096)
        fault(c, FAULT_MEMORY, i->micro_batch, rank, told(c, rank, i, "does not fit in memory"));
    if (!i->gradient) return;
    const struct slot *forward = slot_of(c, i->chunk, rank, i->micro_batch, i->sub, false);
    if (forward->start_ns < 0 || forward->finish_ns > i->start_ns)
        found(c, forward->start_ns < 0 ? FAULT_ORDER : FAULT_TIME, rank, i,
              "runs before its forward");
    if (forward->start_ns >= 0 &&
        (forward->bytes != i->bytes || forward->host_bytes != i->host_bytes))
        found(c, FAULT_CHOICE, rank, i, "frees other memory than its forward took");
    if (forward->start_ns >= 0 && !same_blocks(forward->blocks, i->blocks))
        found(c, FAULT_CHOICE, rank, i, "recomputes other blocks than its forward dropped");
    if (forward->start_ns >= 0 && !same_blocks(forward->blocks + 3, i->blocks + 3))
        found(c, FAULT_CHOICE, rank, i, "fetches other blocks than its forward offloaded");
    *live -= i->bytes;
    *host -= i->host_bytes;
}

static void enter_message(struct checker *c, int64_t rank, const struct item *i) {
    bool sends = i->kind == ISEND || i->kind == WAIT_ISEND;
    int64_t sender = sends ? rank : i->peer;
    int64_t receiver = receiver_of(c, i->chunk, sender, i->gradient);
    if (receiver != (sends ? i->peer : rank) || receiver == sender) {
        found(c, FAULT_MESSAGE, rank, i,
              sends ? "names a rank that its message does not go to"
                    : "names a rank that its message does not come from");
        return;
    }
    struct slot *slot = slot_of(c, i->chunk, sender, i->micro_batch, i->sub, i->gradient);
    switch (i->kind) {
    case ISEND:
        c->out->message_count++;
        slot->sends++;
        slot->arrival_ns = i->arrival_ns;
        if (slot->finish_ns < 0) found(c, FAULT_ORDER, rank, i, "sends what was not computed");
        if (i->arrival_ns < slot->finish_ns)
            found(c, FAULT_TIME, rank, i, "arrives before it is made");
        break;
    case WAIT_ISEND:
        slot->send_waits++;
        if (slot->sends < slot->send_waits)
            found(c, FAULT_MESSAGE, rank, i, "waits for nothing");
        break;
    case IRECV:
        slot->receives++;
        break;
    default:
        slot->receive_waits++;
        if (slot->receives < slot->receive_waits)
            found(c, FAULT_MESSAGE, rank, i, "waits for nothing");
        break;
    }
}

static void enter_all(struct checker *c) {
    for (int64_t rank = 0; rank < c->out->rank_count; rank++) {
        const struct item *before = NULL;
        double live = 0, host = 0;
        for (int64_t k = 0; k < c->item_count[rank]; k++) {
            const struct item *i = &c->items[rank][k];
            if (i->sub >= subs_of(c, i->chunk, i->micro_batch)) {
                found(c, FAULT_PASS, rank, i, "does not exist");
                continue;
            }
            if (i->kind > BW) {
                enter_message(c, rank, i);
                continue;
            }
            enter_pass(c, rank, i, before, &live, &host);
            before = i;
        }
        if (before != NULL && before->finish_ns > c->out->makespan_ns) c->late_rank = rank;
    }
}

/* ---- inputs before outputs ---- */

static void check_inputs(struct checker *c, int64_t chunk, int64_t rank, int64_t micro_batch,
                         int64_t sub, bool gradient) {
    const struct slot *slot = slot_of(c, chunk, rank, micro_batch, sub, gradient);
    struct item i = { .kind = gradient ? BW : FW, .chunk = chunk, .micro_batch = micro_batch,
                      .sub = sub };
    if (slot->start_ns < 0) {
        found(c, FAULT_PASS, rank, &i, "is missing");
        return;
    }
    int64_t from_chunk, from_rank;
    if (!neighbour(c, chunk, rank, gradient, &from_chunk, &from_rank)) return;
    int64_t first, last;
    units_before(c, chunk, from_chunk, micro_batch, sub, &first, &last);
    for (int64_t s = first; s < last; s++) {
        const struct slot *input = slot_of(c, from_chunk, from_rank, micro_batch, s, gradient);
        bool local = from_rank == rank;
        int64_t there_ns = local ? input->finish_ns : input->arrival_ns;
        if (!local && (input->sends != 1 || input->receives != 1 || input->send_waits != 1 ||
                       input->receive_waits != 1))
            found(c, FAULT_MESSAGE, rank, &i,
                  "has an input that is not sent, received and waited for once");
        else if (!local && input->used_early)
            found(c, FAULT_ORDER, rank, &i, "stands before the wait for its input");
        else if (there_ns < 0 || there_ns > slot->start_ns)
            found(c, FAULT_TIME, rank, &i, "starts before its input is there");
    }
}

static void check_all_inputs(struct checker *c) {
    for (int64_t chunk = 0; chunk < c->chunks; chunk++)
        for (int64_t rank = 0; rank < c->out->rank_count; rank++)
            for (int64_t m = 0; m < c->out->micro_batch_count; m++)
                for (int64_t s = 0; s < subs_of(c, chunk, m); s++) {
                    check_inputs(c, chunk, rank, m, s, false);
                    check_inputs(c, chunk, rank, m, s, true);
                }
}

/* ---- executing the lists ---- */

struct cursor {
    int64_t at, free_ns;
};

/* Runs one action; false: it must wait for another rank. */
static bool execute(struct checker *c, int64_t rank, struct cursor *cursor) {
    const struct item *i = &c->items[rank][cursor->at];
    if (i->kind == IRECV) return true;
    bool mine = i->kind != WAIT_IRECV;
    struct slot *slot =
        slot_of(c, i->chunk, mine ? rank : i->peer, i->micro_batch, i->sub, i->gradient);
    if (i->kind <= BW) {
        cursor->free_ns += i->finish_ns - i->start_ns;
        slot->executed_ns = cursor->free_ns;
        if (cursor->free_ns > c->out->executed_ns) c->out->executed_ns = cursor->free_ns;
    } else if (i->kind == ISEND) {
        slot->message_ns = slot->executed_ns + slot->arrival_ns - slot->finish_ns;
        if (slot->message_ns > c->out->executed_ns) c->out->executed_ns = slot->message_ns;
    } else if (slot->message_ns < 0) {
        return false;
    } else if (i->kind == WAIT_IRECV && slot->message_ns > cursor->free_ns) {
        cursor->free_ns = slot->message_ns;
    }
    return true;
}

static void execute_all(struct checker *c) {
    struct cursor *cursors = arena_array(c->arena, struct cursor, c->out->rank_count);
    int64_t left = 0;
    for (int64_t rank = 0; rank < c->out->rank_count; rank++)
        left += c->item_count[rank];
    for (bool progress = true; progress;) {
        progress = false;
        for (int64_t rank = 0; rank < c->out->rank_count; rank++)
            while (cursors[rank].at < c->item_count[rank] && execute(c, rank, &cursors[rank])) {
                cursors[rank].at++;
                left--;
                progress = true;
            }
    }
    if (left == 0) return;
    c->out->executed_ns = INT64_MAX;
    tell(c, "executed, the lists wait for each other for ever");
}

static void make_slots(struct checker *c) {
    int64_t count =
        2 * c->chunks * c->out->rank_count * c->out->micro_batch_count * c->subs_limit;
    c->slots = arena_array(c->arena, struct slot, count);
    for (int64_t i = 0; i < count; i++)
        c->slots[i] = (struct slot){ .start_ns = -1,
                                     .finish_ns = -1,
                                     .arrival_ns = -1,
                                     .executed_ns = -1,
                                     .message_ns = -1 };
}

/* Of lists without another fault. */
static void check_makespan(struct checker *c) {
    struct action_check *out = c->out;
    if (c->late_rank >= 0)
        tell(c, arena_format(c->arena, "rank %ld: its last pass ends after the makespan",
                             (long)c->late_rank));
    else if (out->lower_bound_ns > out->makespan_ns)
        tell(c, "the makespan is below the lower bound");
    if (out->fault_count > 0) return;
    execute_all(c);
    if (out->fault_count == 0 && out->executed_ns > out->makespan_ns)
        tell(c, arena_format(c->arena, "executed, the lists take %ld ns, the file says %ld",
                             (long)out->executed_ns, (long)out->makespan_ns));
}

struct action_check *action_check_file(struct arena *arena, const char *path, struct error *err) {
    struct json *json = json_load(path, err);
    if (json == NULL) return NULL;
    struct action_check *out = arena_new(arena, struct action_check);
    struct checker c = { .arena = arena, .json = json, .err = err, .out = out, .subs_limit = 1,
                         .late_rank = -1 };
    bool ok = read_file(&c, json_root(json));
    if (ok) {
        make_slots(&c);
        enter_all(&c);
        check_all_inputs(&c);
        tell_faults(&c);
        if (out->fault_count == 0) check_makespan(&c);
    }
    json_destroy(json);
    return ok ? out : NULL;
}
