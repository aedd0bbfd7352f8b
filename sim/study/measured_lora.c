/* measured_lora.c - adapters of a measured row, which sources name in words.
 *
 * Defaults: rank 8, beside the matrix of q, k and v as NeMo's recipes of Llama 3 in performance mode
 * (nemo/collections/llm/recipes/llama3_8b.py), or beside q and v as PEFT for Llama
 * (peft/utils/constants.py; LoraConfig.r).
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/study/measured_row.h"
#include "sim/study/measured_words.h"

enum { DEFAULT_RANK = 8 };

bool measured_has_lora(const struct measured_run *run) {
    return run->lora_rank > 0 || run->lora_targets[0] != '\0' ||
           measured_text_says(run->model, "LoRA") || measured_text_says(run->notes, "LoRA");
}

const char *measured_quantised_lora(const struct measured_run *run) {
    if (measured_text_says(run->model, "QLoRA")) return "model";
    return measured_text_says(run->notes, "QLoRA") ? "notes" : NULL;
}

/* "rank 16", "rank of 16", "r=16"; 0: the text has none. */
static int64_t rank_in(const char *text) {
    static const char *const words[] = { "rank", "r=" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (const char *at = strcasestr(text, words[i]); at != NULL;
             at = strcasestr(at + 1, words[i])) {
            if (at != text && isalnum((unsigned char)at[-1])) continue;
            const char *number = at + strlen(words[i]);
            number += strspn(number, " =:of");
            if (isdigit((unsigned char)*number)) return strtoll(number, NULL, 10);
        }
    return 0;
}

static void add_targets(cJSON *lora, struct measured_row *row) {
    cJSON *targets = cJSON_AddArrayToObject(lora, "targets");
    char *save = NULL, *list = arena_text(row->context->arena, row->run.lora_targets);
    for (char *name = strtok_r(list, ";,+ ", &save); name != NULL;
         name = strtok_r(NULL, ";,+ ", &save))
        cJSON_AddItemToArray(targets, cJSON_CreateString(name));
    if (targets->child != NULL) return;
    const bool megatron = strcmp(row->backend, "megatron-lm") == 0;
    cJSON_AddItemToArray(targets, cJSON_CreateString(megatron ? "linear_qkv" : "q_proj"));
    if (!megatron) cJSON_AddItemToArray(targets, cJSON_CreateString("v_proj"));
    measured_row_note(row, "lora_targets: %s",
                      megatron ? "linear_qkv, as NeMo's recipes have it"
                               : "q_proj and v_proj, as PEFT has it");
}

void measured_add_lora(cJSON *model, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    cJSON *lora = cJSON_AddObjectToObject(model, "lora");
    int64_t rank = r->lora_rank > 0 ? r->lora_rank : rank_in(r->model);
    if (rank < 1) rank = rank_in(r->notes);
    if (rank < 1) {
        rank = DEFAULT_RANK;
        measured_row_note(row, "lora_rank: %ld, as NeMo's recipes and PEFT have it", (long)rank);
    }
    cJSON_AddNumberToObject(lora, "rank", (double)rank);
    add_targets(lora, row);
}
