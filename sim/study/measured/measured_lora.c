/* measured_lora.c - adapters of a measured row, which sources name in words.
 *
 * Defaults: rank 8, beside the matrix of q, k and v as NeMo's recipes of Llama 3 in performance
 * mode (nemo/collections/llm/recipes/llama3_8b.py), or beside q and v as PEFT for Llama
 * (peft/utils/constants.py; LoraConfig.r), or beside every linear layer by the trainers that
 * do; of diffusion transformers beside the four matrices of attention, as Diffusers' training
 * scripts for Wan have it, and where video and text are joined those of either stream and of their
 * feed-forward networks, as its script for Flux.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/base/arena.h"
#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

enum { DEFAULT_RANK = 8 };
#define ADAPTER_DROPOUT 0.05 /* kernels do not tell one probability from another */

static const char *const words[] = { "LoRA", "rsLoRA", "DoRA", NULL };

static bool says_lora(const char *text) {
    for (int i = 0; words[i] != NULL; i++)
        if (measured_text_says(text, words[i])) return true;
    return false;
}

/* A note may name LoRA beside a run that is none. */
static bool note_means_lora(const char *notes) {
    static const char *const others[] = { "full fine-tuning", "full finetuning", "full parameter",
                                          "full-parameter",   "than LoRA",       "with LoRA below",
                                          "to LoRA",          "vs LoRA",         "versus LoRA" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasestr(notes, others[i]) != NULL) return false;
    return measured_says_framework(notes, "lora") || measured_says_framework(notes, "rslora") ||
           measured_says_framework(notes, "dora");
}

bool measured_has_lora(const struct measured_run *run) {
    if (run->lora_rank == 0) return false;
    return run->lora_rank > 0 || run->lora_targets[0] != '\0' || says_lora(run->model) ||
           says_lora(run->stack) || note_means_lora(run->notes);
}

const char *measured_quantised_lora(const struct measured_run *run) {
    static const char *const signs[] = { "QLoRA", "Q-LoRA", "nf4", "bitsandbytes", "4-bit" };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        const bool alone = i < 2; /* the others speak of weights, adapted or not */
        if (!alone && !measured_has_lora(run)) continue;
        if (measured_text_says(run->model, signs[i])) return "model";
        if (measured_text_says(run->stack, signs[i])) return "stack";
        if (measured_text_says(run->notes, signs[i])) return "notes";
    }
    return NULL;
}

/* "LoRA rank 16", "LoRA of rank-16", "LoRA-r16", "LoRA (r = 16)": up to the end of the clause whose
 * text begins behind "LoRA"; 0: none there. */
static int64_t rank_behind(const char *at) {
    for (const char *end = at + strcspn(at, ";."); at < end; at++) {
        if (isalnum((unsigned char)at[-1]) && at[-1] != 'A' && at[-1] != 'a') continue;
        const size_t length =
            strncasecmp(at, "rank", 4) == 0 ? 4 : tolower((unsigned char)*at) == 'r';
        if (length == 0) continue;
        const char *number = at + length;
        number += strspn(number, " =:-");
        if (isdigit((unsigned char)*number)) return strtoll(number, NULL, 10);
    }
    return 0;
}

/* "beside LoRA", "than LoRA", "another run has LoRA": what stands behind is of another run. */
static bool is_of_other_run(const struct clause *clause) {
    static const char *const others[] = { "beside", "besides", "no", "not", NULL };
    for (int i = 0; i < clause->count; i++) {
        if (strstr(clause->tokens[i], "lora") != NULL) break;
        if (clause_is_one_of(clause->tokens[i], others)) return true;
    }
    return clause_is_unclear(clause);
}

/* Behind the first "LoRA", else behind those of clauses that tell of this run. */
static int64_t rank_in(const char *text) {
    const char *first = strcasestr(text, "LoRA");
    if (first == NULL) return 0;
    int64_t rank = rank_behind(first + strlen("LoRA"));
    struct clause clause;
    for (const char *start = text; rank == 0 && clause_next(&text, &clause); start = text) {
        const char *at = strcasestr(start, "LoRA");
        if (at != NULL && at < text && !is_of_other_run(&clause))
            rank = rank_behind(at + strlen("LoRA"));
    }
    return rank;
}

/* Of a clause that begins with it, "rank 64 beside q and v": no rank of a process. */
static int64_t rank_apart(const char *text) {
    enum { LEAST_RANK = 4, MOST_RANK = 1024 };
    static const char *const behind[] = { "beside", "on", "adapter", "adapters", "alpha", "and",
                                          "as",     "in", "with",    "by",       "lora",  NULL };
    static const char *const others[] = { "gpu",  "gpus",  "memory", "process", "processes",
                                          "node", "nodes", "not",    "no",      NULL };
    struct clause clause;
    while (clause_next(&text, &clause)) {
        const char *next = clause_token(&clause, 2);
        if (strcmp(clause_token(&clause, 0), "rank") != 0 ||
            !clause_is_number(clause_token(&clause, 1)) ||
            (next[0] != '\0' && !clause_is_one_of(next, behind)) ||
            clause_mentions(&clause, others) || clause_is_unclear(&clause))
            continue;
        const int64_t rank = strtoll(clause_token(&clause, 1), NULL, 10);
        if (rank >= LEAST_RANK && rank <= MOST_RANK) return rank;
    }
    return 0;
}

/* Whether a trainer drops out what its adapters read where nobody says. Of MLPerf's, 0.1 by its
 * rules, it is not read how NVIDIA's code runs it: kernels of its own for it would cost 3 % on H100,
 * and what they keep does not fit the B200 that ran it. */
enum adapter_dropout { ADAPTER_DROPOUT_NONE, ADAPTER_DROPOUT_USUAL, ADAPTER_DROPOUT_UNPRICED };

/* What trainers adapt unless told otherwise: lora_target all (LLaMA-Factory
 * hparams/finetuning_args.py), target_modules all-linear (ms-swift), lora_target_linear in Axolotl's
 * examples, the seven of Unsloth's get_peft_model and Surogate's, match_all_linear of AutoModel's
 * recipes, c_attn (q, k and v as one matrix), c_proj, w1 and w2 of Qwen's finetune.py; MLPerf's
 * benchmark attention alone (mlcommons/training llama2_70b_lora, Megatron's linear_qkv and
 * linear_proj). Of rank 64 by Qwen's finetune.py, 16 by Unsloth's get_peft_model and MLPerf's rules,
 * 8 by LLaMA-Factory and ms-swift (lora_rank of the files above). Dropout of 0.05 by ms-swift and
 * Qwen; adapters that are no PEFT's, which casts their input. NULL: none of them. */
struct trainer {
    const char *name, *says[5], *targets[6]; /* both lists end in NULL */
    int64_t rank;                            /* 0: not known */
    enum adapter_dropout dropout;
    bool own_adapters;
};

static bool names_trainer(const struct measured_run *run, const struct trainer *trainer) {
    for (const char *const *says = trainer->says; *says != NULL; says++)
        if (measured_text_says(run->stack, *says) || measured_text_says(run->source, *says) ||
            measured_says_framework(run->notes, *says))
            return true;
    return false;
}

static const struct trainer *trainer_of(const struct measured_run *run) {
    static const struct trainer trainers[] = {
        { "Axolotl", { "axolotl" }, { "all-linear" }, 0, ADAPTER_DROPOUT_NONE, false },
        { "LLaMA-Factory",
          { "llama-factory", "llamafactory", "llama factory" },
          { "all-linear" },
          8,
          ADAPTER_DROPOUT_NONE,
          false },
        { "ms-swift", { "ms-swift" }, { "all-linear" }, 8, ADAPTER_DROPOUT_USUAL, false },
        { "Unsloth", { "unsloth" }, { "all-linear" }, 16, ADAPTER_DROPOUT_NONE, true },
        { "Surogate", { "surogate" }, { "all-linear" }, 0, ADAPTER_DROPOUT_NONE, true },
        { "AutoModel", /* alone it is a class of Transformers */
          { "nemo automodel", "nemo-automodel", "nemo/automodel", "automodel-20" },
          { "all-linear" },
          0,
          ADAPTER_DROPOUT_NONE,
          true },
        { "Qwen's finetune.py",
          { "qwenlm/qwen" },
          { "linear_qkv", "o_proj", "gate_proj", "up_proj", "down_proj" },
          64,
          ADAPTER_DROPOUT_USUAL,
          false },
        { "MLPerf",
          { "training_results", "mlcommons/training", "mlperf" },
          { "linear_qkv", "linear_proj" },
          16,
          ADAPTER_DROPOUT_UNPRICED,
          true },
    };
    for (size_t i = 0; i < sizeof trainers / sizeof trainers[0]; i++)
        if (names_trainer(run, &trainers[i])) return &trainers[i];
    return NULL;
}

/* As LLaMA-Factory, PEFT and people have it. */
static bool names_every_layer(struct arena *arena, const char *cell) {
    static const char *const names[] = { "all",           "all-linear",         "all-linear-layers",
                                         "all-layers",    "every-linear-layer", "linear",
                                         "target-linear", "all-modules" };
    const char *plain = measured_plain(arena, cell);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(plain, names[i]) == 0) return true;
    return false;
}

/* The one matrix of q, k and v by its names in modeling files (GLM and Falcon, Phi-3, Baichuan,
 * GPT-2, MPT). */
static const char *layer_meant(const char *name) {
    static const char *const joint[] = { "query_key_value", "qkv_proj", "W_pack",
                                         "c_attn",          "Wqkv",     "qkv" };
    for (size_t i = 0; i < sizeof joint / sizeof joint[0]; i++)
        if (strcasecmp(name, joint[i]) == 0) return "linear_qkv";
    return name;
}

static void add_targets(cJSON *lora, struct measured_row *row, const struct trainer *trainer) {
    cJSON *targets = cJSON_AddArrayToObject(lora, "targets");
    char *save = NULL, *list = arena_text(row->context->arena, row->run.lora_targets);
    if (names_every_layer(row->context->arena, list)) {
        cJSON_AddItemToArray(targets, cJSON_CreateString("all-linear"));
        return;
    }
    for (char *name = strtok_r(list, ";,+ []\"'|", &save); name != NULL;
         name = strtok_r(NULL, ";,+ []\"'|", &save))
        cJSON_AddItemToArray(targets, cJSON_CreateString(layer_meant(name)));
    if (targets->child != NULL) return;
    if (measured_is_diffusion(&row->run)) {
        static const char *const layers[] = { "to_q",
                                              "to_k",
                                              "to_v",
                                              "to_out.0",
                                              "add_q_proj",
                                              "add_k_proj",
                                              "add_v_proj",
                                              "to_add_out",
                                              "ff.net.0.proj",
                                              "ff.net.2",
                                              "ff_context.net.0.proj",
                                              "ff_context.net.2" };
        enum { ATTENTION = 4, EVERY = sizeof layers / sizeof layers[0] };
        const bool joint = row->run.double_stream_blocks > 0;
        for (int i = 0; i < (joint ? EVERY : ATTENTION); i++)
            cJSON_AddItemToArray(targets, cJSON_CreateString(layers[i]));
        measured_row_note(row, joint ? "lora_targets: of either stream attention and feed-forward "
                                       "network, as Diffusers' script for Flux has it"
                                     : "lora_targets: to_q, to_k, to_v and to_out.0, as Diffusers' "
                                       "scripts have it");
        return;
    }
    if (measured_says_framework(row->run.notes, "all linear")) {
        cJSON_AddItemToArray(targets, cJSON_CreateString("all-linear"));
        measured_row_note(row, "lora_targets: all-linear, as its notes say");
        return;
    }
    if (trainer != NULL) {
        const char *names = "";
        for (const char *const *target = trainer->targets; *target != NULL; target++) {
            cJSON_AddItemToArray(targets, cJSON_CreateString(*target));
            names = arena_format(row->context->arena, "%s%s%s", names, *names != '\0' ? ", " : "",
                                 *target);
        }
        measured_row_note(row, "lora_targets: %s, as %s has it", names, trainer->name);
        return;
    }
    const bool megatron = strcmp(row->backend, "megatron-lm") == 0;
    cJSON_AddItemToArray(targets, cJSON_CreateString(megatron ? "linear_qkv" : "q_proj"));
    if (!megatron) cJSON_AddItemToArray(targets, cJSON_CreateString("v_proj"));
    measured_row_note(row, "lora_targets: %s",
                      megatron ? "linear_qkv, as NeMo's recipes have it"
                               : "q_proj and v_proj, as PEFT has it");
}

/* Dropout of what adapters read, by the notes, else as the trainer has it. */
static void add_dropout(cJSON *lora, struct measured_row *row, const struct trainer *trainer) {
    const enum measured_switch said = measured_says_adapter_dropout(row->run.notes);
    const enum adapter_dropout usual = trainer != NULL ? trainer->dropout : ADAPTER_DROPOUT_NONE;
    if (usual == ADAPTER_DROPOUT_UNPRICED && said == SWITCH_ON)
        measured_row_note(row, "lora: the dropout of what adapters read is not priced, of %s",
                          trainer->name);
    if (usual == ADAPTER_DROPOUT_UNPRICED || said == SWITCH_OFF ||
        (said == SWITCH_UNSAID && usual == ADAPTER_DROPOUT_NONE))
        return;
    cJSON_AddNumberToObject(lora, "dropout", ADAPTER_DROPOUT);
    measured_row_note(row, "lora: dropout of what adapters read, as %s",
                      said == SWITCH_ON
                          ? "its notes say"
                          : arena_format(row->context->arena, "%s has it", trainer->name));
}

static int64_t rank_of(struct measured_row *row, const struct trainer *trainer) {
    const struct measured_run *r = &row->run;
    if (r->lora_rank > 0) return r->lora_rank;
    const int64_t named = rank_in(r->model) > 0 ? rank_in(r->model) : rank_in(r->stack);
    if (named > 0) return named;
    const bool known = trainer != NULL && trainer->rank > 0;
    int64_t rank = rank_in(r->notes) > 0 ? rank_in(r->notes) : rank_apart(r->notes);
    const char *by = "its notes say";
    if (rank == 0) {
        rank = known ? trainer->rank : DEFAULT_RANK;
        by = known ? arena_format(row->context->arena, "%s has it", trainer->name)
                   : "NeMo's recipes and PEFT have it";
    }
    measured_row_note(row, "lora_rank: %ld, as %s", (long)rank, by);
    return rank;
}

void measured_add_lora(cJSON *model, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    cJSON *lora = cJSON_AddObjectToObject(model, "lora");
    const struct trainer *trainer = trainer_of(r);
    cJSON_AddNumberToObject(lora, "rank", (double)rank_of(row, trainer));
    add_targets(lora, row, trainer);
    const bool pefts = measured_says_framework(r->notes, "peft");
    const bool own = trainer != NULL && trainer->own_adapters && !pefts;
    const bool narrow = measured_says_bf16_adapters(r->notes);
    add_dropout(lora, row, trainer);
    if (own || narrow) cJSON_AddStringToObject(lora, "adapter_weights", "bf16");
    if (narrow) measured_row_note(row, "lora: adapters in bf16, as its notes say");
    if (!measured_says_fp32_weights(r->stack) && !measured_says_fp32_weights(r->notes)) return;
    const bool fsdp = strcmp(row->backend, "fsdp") == 0;
    const bool shards = row->dp > 1 && (row->zero_stage == 3 || (row->zero_stage == 2 && fsdp));
    if (shards || row->pp > 1) {
        measured_row_note(row, "lora: frozen weights in fp32 are taken as bf16 where they are %s",
                          shards ? "sharded" : "divided over stages");
        return;
    }
    cJSON_AddStringToObject(lora, "weights", "fp32");
    measured_row_note(row, "lora: frozen weights in fp32 under autocast, as its notes say");
}
