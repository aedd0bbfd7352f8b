/* measured_document.c - the scenario of a completed row, section by section. */
#include <math.h>
#include <string.h>
#include "costmodel/hardware.h"
#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

static bool is_encoder(const struct measured_run *r) {
    return strcmp(r->modality, "encoder") == 0;
}

/* Models of the GPT family, encoders and diffusion transformers have biases, norms with means and
 * learned positions beside their activation. */
static bool is_like_gpt(const struct measured_run *r) {
    return strncmp(r->ffn, "gelu", 4) == 0 || strcmp(r->ffn, "quick-gelu") == 0 || is_encoder(r);
}

/* A note that something is as it usually is. */
static void note_usual(struct measured_row *row, const char *what, const char *ffn) {
    if (is_encoder(&row->run))
        measured_row_note(row, "%s, as usual in encoders", what);
    else
        measured_row_note(row, "%s, as usual with %s", what, ffn);
}

void measured_add_shape(cJSON *module, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const char *ffn = r->ffn[0] != '\0' ? r->ffn : "swiglu";
    cJSON_AddNumberToObject(module, "layer_count", (double)r->layers);
    cJSON_AddNumberToObject(module, "hidden", (double)r->hidden);
    cJSON_AddNumberToObject(module, "ffn_hidden", (double)r->ffn_hidden);
    cJSON_AddNumberToObject(module, "heads", (double)r->heads);
    cJSON_AddNumberToObject(module, "kv_heads", (double)measured_given(r->kv_heads, r->heads));
    cJSON_AddNumberToObject(module, "head_dim",
                            (double)measured_given(r->head_dim, r->hidden / r->heads));
    cJSON_AddStringToObject(module, "ffn", ffn);
    if (r->ffn[0] == '\0') measured_row_note(row, "ffn: %s", ffn);
    const bool says_norm = strcmp(r->norm, "layer") == 0 || strcmp(r->norm, "rms") == 0;
    const char *norm = says_norm ? r->norm : is_like_gpt(r) ? "layer" : "rms";
    cJSON_AddStringToObject(module, "norm", norm);
    if (!says_norm) note_usual(row, arena_format(row->context->arena, "norm: %s", norm), ffn);
    if (r->kv_heads < 1) measured_row_note(row, "kv_heads: as many as heads");
    if (r->head_dim < 1) measured_row_note(row, "head_dim: hidden / heads");
    if (r->qk_norm[0] != '\0') cJSON_AddStringToObject(module, "qk_norm", r->qk_norm);
    if (is_like_gpt(r)) cJSON_AddStringToObject(module, "qkv_bias", "all");
    cJSON_AddBoolToObject(module, "linear_bias", is_like_gpt(r));
}

/* An encoder of images by its name, over no more than ImageNet's 21,841 classes. */
static bool is_classifier(const struct measured_run *r) {
    enum { MOST_CLASSES = 21841 };
    static const char *const names[] = {
        "vit", "deit", "swin", "beit", "mae", "eva", "dino", "dit"
    };
    if (!is_encoder(r) || r->vocab > MOST_CLASSES) return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (measured_text_says(r->model, names[i])) return true;
    return false;
}

/* What reads an image as one token is contrastive. */
static bool has_head(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    if (r->head[0] != '\0') return strcmp(r->head, "none") != 0;
    const bool classifier = is_classifier(r);
    if (row->pools)
        measured_row_note(row, "head: none, because an image is one token");
    else if (classifier)
        measured_row_note(row, "head: none, as of a classifier of images");
    return !row->pools && !classifier;
}

/* Not of another run: "the rows beside it have RoPE". */
static bool says_rotary(const char *text) {
    static const char *const names[] = { "rotary", "rope", "rotarytransform", NULL };
    static const char *const others[] = { "beside", "unlike", "elsewhere", "others", NULL };
    struct clause clause;
    while (clause_next(&text, &clause)) {
        if (clause_is_unclear(&clause) || clause_mentions(&clause, others)) continue;
        for (int i = 0; i < clause.count; i++)
            if (clause_is_one_of(clause.tokens[i], names) &&
                clause_polarity(&clause, i, i, text) == POLARITY_SAID)
                return true;
    }
    return false;
}

/* GPTs with rotary positions say so in their name or notes. */
static const char *position_of(struct measured_row *row, bool gpt) {
    const struct measured_run *r = &row->run;
    static const char *const known[] = { "rotary", "learned", "none" };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(r->position, known[i]) == 0) return r->position;
    if (!gpt) return "rotary";
    const bool rotary = says_rotary(r->model) || says_rotary(r->notes);
    const bool learned = measured_text_says(r->notes, "learned positions") ||
                         measured_text_says(r->notes, "learned position") ||
                         measured_text_says(r->notes, "embeddings learned");
    if (!rotary || learned) return "learned";
    measured_row_note(row, "positions: rotary, as its name or notes say");
    return "rotary";
}

static void add_language(cJSON *definition, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const bool gpt = is_like_gpt(r);
    cJSON *language = cJSON_AddObjectToObject(definition, "language");
    cJSON_AddStringToObject(language, "name", "measured model");
    cJSON_AddStringToObject(language, "role", "language");
    measured_add_shape(language, row);
    const char *position = position_of(row, gpt);
    cJSON_AddStringToObject(language, "position", position);
    if (strcmp(position, "learned") == 0)
        cJSON_AddNumberToObject(language, "position_count", (double)r->seq_len);
    const bool headed = has_head(row);
    const bool tied = measured_model_is_tied(row->context, r, gpt);
    if (tied && !gpt && headed) measured_row_note(row, "embeddings: the head's are the tokens'");
    cJSON_AddBoolToObject(language, "tied_embeddings", tied && headed);
    if (is_encoder(r)) cJSON_AddBoolToObject(language, "bidirectional", true);
    if (r->branch_norm) cJSON_AddBoolToObject(language, "branch_norm", true);
    if (r->parallel_residual != NULL)
        cJSON_AddStringToObject(language, "parallel_residual", r->parallel_residual);
    if (r->logit_cap && headed) cJSON_AddBoolToObject(language, "logit_cap", true);
    /* GPTs before FlashAttention were trained with dropout, 0.1 by Megatron-LM's default. */
    const bool naive = strcmp(row->attention, "naive") == 0;
    const bool dropout =
        gpt && !row->out->stack->no_dropout && (naive || row->out->stack->gpt_dropout);
    cJSON_AddBoolToObject(language, "dropout", dropout);
    if (dropout && r->dropout < 0) note_usual(row, "dropout: on", r->ffn);
    cJSON_AddNumberToObject(language, "vocabulary", (double)r->vocab);
    if (!headed) cJSON_AddBoolToObject(language, "headless", true);
    cJSON_AddStringToObject(language, "source", "row of measured runs");
    if (isnan(r->head_share)) return;
    if (headed)
        cJSON_AddNumberToObject(language, "head_share", r->head_share);
    else
        measured_row_note(row, "head_share: not read, there is no head");
}

/* LLaVA's connector, and pixel shuffle where the encoder's family has it; what makes an image one
 * token, as CLIP's text tower reads it here, averages its patches and is one linear layer. */
static void add_vision(cJSON *model, cJSON *definition, struct measured_row *row) {
    if (row->vision_own_side) {
        cJSON *vision = cJSON_AddObjectToObject(definition, "vision");
        cJSON_AddStringToObject(vision, "module", row->vision);
        cJSON_AddNumberToObject(vision, "image_size", (double)row->vision_side);
    } else {
        cJSON_AddStringToObject(definition, "vision", row->vision);
    }
    cJSON *connector = cJSON_AddObjectToObject(definition, "connector");
    const int64_t merge = measured_image_merge(row);
    cJSON_AddNumberToObject(connector, "merge", (double)merge);
    cJSON_AddStringToObject(connector, "inner", row->pools ? "none" : "language");
    if (row->pools) cJSON_AddBoolToObject(connector, "pool", true);
    cJSON_AddBoolToObject(connector, "norm", merge > 1);
    cJSON_AddStringToObject(connector, "source", "row of measured runs: two linear layers");
    cJSON *frozen = cJSON_AddArrayToObject(model, "frozen");
    static const char *const roles[] = { "vision", "connector", "language" };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strstr(row->run.frozen, roles[i]) != NULL)
            cJSON_AddItemToArray(frozen, cJSON_CreateString(roles[i]));
}

static void add_model(cJSON *root, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const char *name = r->model[0] != '\0' ? r->model : "measured model";
    cJSON *model = cJSON_AddObjectToObject(root, "model");
    cJSON_AddStringToObject(model, "name", name);
    cJSON *definition = cJSON_AddObjectToObject(model, "definition");
    cJSON_AddStringToObject(definition, "name", name);
    cJSON_AddStringToObject(definition, "source", "row of measured runs");
    if (measured_is_diffusion(r)) {
        measured_add_decoder(definition, row);
        if (measured_has_lora(r)) measured_add_lora(model, row);
        return;
    }
    add_language(definition, row);
    if (row->vision != NULL) add_vision(model, definition, row);
    if (measured_has_lora(r)) measured_add_lora(model, row);
}

static void add_constant(cJSON *samples, const char *key, double value) {
    cJSON *what = cJSON_AddObjectToObject(samples, key);
    cJSON_AddStringToObject(what, "distribution", "constant");
    cJSON_AddNumberToObject(what, "value", value);
}

/* Steps of a shipped data set: enough for the mean step within 1 %. */
enum { DATASET_STEPS = 500 };

/* Every image is one tile, however large, unless it is cut. */
static void add_dataset(cJSON *root, struct measured_row *row) {
    cJSON *dataset = cJSON_AddObjectToObject(root, "dataset");
    cJSON_AddStringToObject(dataset, "name", row->dataset);
    if (row->anyres) {
        cJSON_AddStringToObject(dataset, "tiling", "anyres-unpadded");
    } else if (strcmp(row->dataset, "llava-665k") == 0) {
        cJSON_AddStringToObject(dataset, "tiling", "internvl");
        cJSON_AddNumberToObject(dataset, "max_tiles", 1);
    }
    cJSON *simulate = cJSON_AddObjectToObject(root, "simulate");
    cJSON_AddNumberToObject(simulate, "iterations", DATASET_STEPS);
}

static void add_samples(cJSON *root, struct measured_row *row) {
    if (row->dataset != NULL) {
        add_dataset(root, row);
        return;
    }
    cJSON *dataset = cJSON_AddObjectToObject(root, "dataset");
    cJSON_AddStringToObject(dataset, "name", "fixed length");
    cJSON *samples = cJSON_AddObjectToObject(dataset, "definition");
    cJSON_AddStringToObject(samples, "name", "fixed length");
    cJSON_AddStringToObject(samples, "description", "samples of one length");
    cJSON_AddStringToObject(samples, "kind", "distribution");
    cJSON_AddNumberToObject(samples, "sample_count", (double)row->global_batch);
    cJSON_AddNumberToObject(samples, "seed", 1);
    const bool diffusion = measured_is_diffusion(&row->run);
    if (diffusion) add_constant(samples, "clip_ms", (double)row->language_tokens);
    add_constant(samples, "vision_tiles", (double)row->tiles);
    add_constant(samples, "language_tokens",
                 (double)(diffusion ? row->run.text_len : row->language_tokens));
}

/* What no column has: how fast the machine's collectives are beside its NICs. */
static void add_machine(cJSON *cluster, struct measured_row *row,
                        const struct known_machine *machine) {
    const struct cluster_network *network = &machine->preset.network;
    if (network->fabric != NULL) {
        cJSON_AddStringToObject(cluster, "fabric", network->fabric);
        measured_row_note(row, "fabric: %s, as in %s", network->fabric, machine->name);
        return;
    }
    cJSON_AddNumberToObject(cluster, "nic_efficiency_fraction", network->nic_efficiency_fraction);
    measured_row_note(row, "nic_efficiency_fraction: %g, as in %s",
                      network->nic_efficiency_fraction, machine->name);
}

/* Boards of four Blackwell GPUs that no NVLink leaves. */
static bool says_nvl4(const struct measured_run *r) {
    return strcasestr(r->hardware, "NVL4") != NULL || measured_text_says(r->notes, "NVL4");
}

static void add_cluster(cJSON *root, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const char *hardware = row->out->hardware;
    cJSON *cluster = cJSON_AddObjectToObject(root, "cluster");
    cJSON_AddStringToObject(cluster, "hardware", hardware);
    cJSON_AddNumberToObject(cluster, "gpu_count", (double)r->gpu_count);
    struct gpu gpu = { .gpus_per_node = 1, .server_nic_Gbit_per_s = 400 };
    struct error unread = { 0 }; /* which the scenario tells */
    hardware_gpu(row->context->arena, row->context->directory, hardware, &gpu, &unread);
    const bool tray =
        hardware_is_tray(gpu.gpus_per_node, r->gpus_per_node, r->gpu_count) && !says_nvl4(r);
    enum { BOARD = 4 };
    const bool board = r->gpus_per_node < 1 && says_nvl4(r) && gpu.gpus_per_node > BOARD;
    int64_t node = board                          ? BOARD
                   : r->gpus_per_node < 1 || tray ? gpu.gpus_per_node
                                                  : r->gpus_per_node;
    const int64_t built = node < r->gpu_count ? node : r->gpu_count,
                  mesh = node == gpu.mesh_gpus ? node : 0;
    node = hardware_node_share(node, r->gpu_count, row->tp);
    if (board)
        measured_row_note(row, "gpus_per_node: %ld, those of an NVL4 board", (long)node);
    else if (r->gpus_per_node < 1 && node == built)
        measured_row_note(row, "gpus_per_node: %ld, %s", (long)node,
                          node < r->gpu_count || node == gpu.gpus_per_node
                              ? arena_format(row->context->arena, "as built with %s", hardware)
                              : "all in one");
    else if (r->gpus_per_node < 1)
        measured_row_note(row, "gpus_per_node: %ld, equal parts of the %ld that %s is built with",
                          (long)node, (long)gpu.gpus_per_node, hardware);
    else if (tray)
        measured_row_note(
            row, "gpus_per_node: %ld, which NVLink joins in a rack of %s; %ld a node are trays",
            (long)node, hardware, (long)r->gpus_per_node);
    else if (node != built)
        measured_row_note(row, "gpus_per_node: %ld, so that the nodes are alike", (long)node);
    cJSON_AddNumberToObject(cluster, "gpus_per_node", (double)node);
    if (mesh > 0) cJSON_AddNumberToObject(cluster, "nvlink_mesh_gpus", (double)mesh);
    /* The NIC hangs on the PCIe switch of two of the eight GPUs of a V100 server, so one end of a
     * ring reaches it through the CPU: 9.24 of 12.5 GB/s, or 6.12 (NVIDIA/nccl issue 371). */
    if (mesh == 8) cJSON_AddNumberToObject(cluster, "nic_efficiency_fraction", 0.74);
    const bool stated = !isnan(r->nic_Gbit_per_s_per_gpu), several = node < r->gpu_count;
    const struct known_machine *machine = several ? measured_known_machine(row) : NULL;
    const double usual = machine != NULL ? machine->preset.network.nic_bytes_per_s_per_gpu * 8 / 1e9
                                         : gpu.server_nic_Gbit_per_s,
                 rate = stated ? r->nic_Gbit_per_s_per_gpu : usual;
    if (!stated && several)
        measured_row_note(row, "nic_Gbit_per_s_per_gpu: %g, as %s %s", rate,
                          machine != NULL ? "in" : "usual with",
                          machine != NULL ? machine->name : hardware);
    if (rate > SCENARIO_MOST_NIC_Gbit_per_s && several)
        measured_row_note(row, "nic_Gbit_per_s_per_gpu: %g is more than any GPU has: of a node?",
                          rate);
    cJSON_AddNumberToObject(cluster, "nic_Gbit_per_s_per_gpu", rate);
    if (machine != NULL) add_machine(cluster, row, machine);
    /* Those of a tray stand once for each of its trays. */
    const double trays = tray ? (double)node / (double)r->gpus_per_node : 1,
                 stated_nics = fmax(1, floor(trays * (double)r->nics_per_node));
    /* No NIC of these clusters is slower than 100 Gbit/s: less a GPU means that GPUs share one. */
    const bool as_machine = machine != NULL && rate == usual && r->nics_per_node < 1;
    const double shared = as_machine ? (double)machine->preset.network.nics_per_node
                                     : fmax(1, floor((double)node * rate / 100));
    if (r->nics_per_node > 0 || as_machine || rate < 100)
        cJSON_AddNumberToObject(cluster, "nics_per_node",
                                r->nics_per_node > 0 ? stated_nics : shared);
    if (r->nics_per_node < 1 && !as_machine && rate < 100 && several)
        measured_row_note(row, "nics_per_node: %.0f, of 100 Gbit/s or more", shared);
}

/* The cell, else what the notes say, else as the stack has it. */
static bool overlaps(const struct measured_row *row, const char *kind, enum measured_switch said,
                     bool otherwise) {
    if (row->run.overlap[0] == '\0' && said != SWITCH_UNSAID) return said == SWITCH_ON;
    return measured_run_overlaps(&row->run, kind, otherwise);
}

static void note_overlap(struct measured_row *row, const struct measured_overlap *said) {
    if (row->run.overlap[0] != '\0' || row->run.gpu_count <= 1) return;
    const bool told = said->gradients != SWITCH_UNSAID || said->parameters != SWITCH_UNSAID ||
                      said->tensor != SWITCH_UNSAID;
    measured_row_note(row, told ? "overlap: as its notes say, else as %s" : "overlap: as %s",
                      row->out->stack->name);
}

static void add_layout(cJSON *root, struct measured_row *row) {
    cJSON *layout = cJSON_AddObjectToObject(root, "layout");
    cJSON_AddStringToObject(layout, "backend", row->backend);
    cJSON_AddStringToObject(layout, "stack", row->out->layout_stack);
    cJSON_AddNumberToObject(layout, "tp", (double)row->tp);
    cJSON_AddBoolToObject(layout, "sp", row->sp);
    cJSON_AddNumberToObject(layout, "pp", (double)row->pp);
    cJSON_AddNumberToObject(layout, "vpp", (double)row->vpp);
    cJSON_AddNumberToObject(layout, "cp", (double)row->cp);
    measured_add_sequence(layout, row);
    cJSON_AddNumberToObject(layout, "dp", (double)row->dp);
    cJSON_AddNumberToObject(layout, "zero_stage", (double)row->zero_stage);
    if (row->zero_group > 0) cJSON_AddNumberToObject(layout, "zero_group", (double)row->zero_group);
    const struct measured_run *r = &row->run;
    const struct stack *stack = row->out->stack;
    const bool shards = row->zero_stage == 2 && strcmp(row->backend, "deepspeed") == 0;
    const struct measured_overlap said = measured_says_overlap(r->notes);
    const bool gradients =
        overlaps(row, "gradients", said.gradients,
                 shards ? stack->overlap_shard_reduce : stack->overlap_gradient_reduce);
    if (row->zero_stage < 2 || shards)
        cJSON_AddBoolToObject(layout, "overlap_gradient_reduce", gradients);
    else if (r->overlap[0] != '\0' && !gradients)
        measured_row_note(row, "overlap: ZeRO-%ld reduces beside the backward all the same",
                          (long)row->zero_stage);
    if (row->zero_stage < 3)
        cJSON_AddBoolToObject(
            layout, "overlap_parameter_gather",
            overlaps(row, "parameters", said.parameters, stack->overlap_parameter_gather));
    const bool tensor = /* which needs sequence parallelism */
        overlaps(row, "tensor", said.tensor == SWITCH_ON && !row->sp ? SWITCH_UNSAID : said.tensor,
                 stack->overlap_tensor && row->sp);
    if (tensor || (stack->overlap_tensor && row->tp > 1))
        cJSON_AddBoolToObject(layout, "tp_overlap", tensor);
    note_overlap(row, &said);
}

/* A number of layers that no even division gives, but two more would: embedding and head then count
 * as a layer each, so the first and the last stage have one block less (Megatron-LM's
 * account_for_embedding and account_for_loss_in_pipeline_split, Llama 3's 126; Megatron-DeepSpeed's
 * partition method "type:transformer|embedding", BLOOM's 70 and its trial's 106). Otherwise
 * DeepSpeed fills stage after stage: 78 blocks on 12 stages are eleven times 7 and one (BLOOM's
 * trials). */
static void add_partition(cJSON *policy, struct measured_row *row) {
    const int64_t parts = row->pp * row->vpp, layers = row->run.layers;
    if (row->pp == 1 || row->vision != NULL || measured_is_diffusion(&row->run) ||
        layers % parts == 0)
        return;
    const bool ends_count = (layers + 2) % parts == 0;
    const int64_t share = ends_count ? (layers + 2) / parts : (layers + parts - 1) / parts;
    const bool fills =
        strcmp(row->backend, "megatron-deepspeed") == 0 && layers - share * (parts - 1) > 0;
    if (!ends_count && !fills) return;
    measured_row_note(row, ends_count ? "embedding and head count as a layer each"
                                      : "stages are filled one after another");
    cJSON *partition = cJSON_AddObjectToObject(policy, "partition");
    cJSON_AddStringToObject(partition, "name", "manual");
    cJSON *blocks = cJSON_AddArrayToObject(partition, "blocks");
    for (int64_t part = 0; part < parts; part++) {
        const bool first = part == 0, last = part == parts - 1;
        const int64_t count = ends_count ? share - (first || last)
                              : last     ? layers - share * (parts - 1)
                                         : share;
        cJSON_AddItemToArray(blocks, cJSON_CreateNumber((double)count));
    }
}

static void add_policy(cJSON *root, struct measured_row *row) {
    cJSON *policy = cJSON_AddObjectToObject(root, "policy");
    if (strcmp(row->run.schedule, "gpipe") == 0 && row->vpp == 1)
        cJSON_AddStringToObject(policy, "schedule", "gpipe");
    add_partition(policy, row);
    if (row->by_modality) {
        cJSON *batching = cJSON_AddObjectToObject(policy, "batching");
        cJSON_AddStringToObject(batching, "name", "length-group");
        cJSON_AddStringToObject(batching, "variant", "modality");
    }
    if (row->recompute_layers < 0) {
        cJSON_AddStringToObject(policy, "recompute", row->recompute);
        return;
    }
    /* The format counts layers of the model; a stage has its share. */
    const int64_t parts = row->pp * row->vpp;
    cJSON *recompute = cJSON_AddObjectToObject(policy, "recompute");
    cJSON_AddStringToObject(recompute, "name", "uniform");
    cJSON_AddNumberToObject(recompute, "blocks_per_stage",
                            (double)((row->recompute_layers + parts - 1) / parts));
}

static const cJSON *definition_of(const cJSON *document) {
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(document, "model");
    return cJSON_GetObjectItemCaseSensitive(model, "definition");
}

bool measured_is_text(const cJSON *document) {
    const cJSON *definition = definition_of(document),
                *language = cJSON_GetObjectItemCaseSensitive(definition, "language");
    return language != NULL && !cJSON_HasObjectItem(language, "bidirectional") &&
           !cJSON_HasObjectItem(definition, "vision");
}

bool measured_writes_text(const cJSON *document) {
    const cJSON *language = cJSON_GetObjectItemCaseSensitive(definition_of(document), "language");
    return language != NULL && !cJSON_HasObjectItem(language, "bidirectional") &&
           !cJSON_HasObjectItem(language, "headless");
}

/* What stands in for an unknown stack is one that was worth describing; most are slower. What
 * encoders take more is that of all stacks, known or not. */
static void add_rules(cJSON *root, struct measured_row *row) {
    const struct step_bands *bands = row->context->bands;
    double factor = row->context->unknown_stack_factor;
    if (bands != NULL && !isnan(bands->encoder_factor) && !measured_writes_text(root)) return;
    if (row->out->stack->uncalibrated && bands != NULL && factor != 1)
        factor /= bands->uncalibrated_stack_factor; /* the stand-in has that already */
    const bool none = strcmp(row->out->layout_stack, "none") == 0; /* nothing stands in */
    if (row->out->known_stack || none || factor == 1) return;
    measured_row_note(row, "stack: kernels take %.2f times %s's, as those of unknown stacks did",
                      factor, row->out->stack->name);
    cJSON *rule = cJSON_CreateObject();
    cJSON_AddNumberToObject(rule, "factor", factor);
    cJSON_AddStringToObject(
        rule, "source",
        "unknown_stack_factor of scenarios/bands.json: what stacks took over the "
        "one that stood in for them");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "rules"), rule);
}

cJSON *measured_document(struct measured_row *row) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", row->out->row_id);
    add_model(root, row);
    add_samples(root, row);
    add_cluster(root, row);
    add_layout(root, row);
    measured_add_training(root, row);
    add_policy(root, row);
    add_rules(root, row);
    return root;
}
