/* measured_words.c - one table row per word of the format: its column and its spellings. */
#include "sim/study/measured/measured_words.h"

#include "sim/study/measured/measured_said.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Spellings are in plain form, with blanks between; a word is a spelling of itself. */
static const struct word {
    const char *column, *word, *spellings;
} words[] = {
    { "modality", "text", "text-only llm lm language language-only" },
    { "modality", "encoder", "encoder-only bidirectional bert" },
    { "modality", "diffusion",
      "text-to-video t2v text-to-image t2i dit video-diffusion image-diffusion "
      "diffusion-transformer "
      "diffusion-decoder video-generation image-generation class-to-image c2i" },
    { "modality", "vision+text",
      "text+vision image+text text+image vision-text image-text text-image vision-language vlm "
      "mllm "
      "multimodal" },
    { "ffn", "gelu", "gelu-tanh gelu-pytorch-tanh gelu-fast mlp relu" },
    { "ffn", "gelu-new", "" },
    { "ffn", "quick-gelu", "quickgelu" },
    { "ffn", "relu2", "squared-relu relu-squared sqrelu relu^2" },
    { "ffn", "swiglu", "silu swi-glu silu-glu silu-gated gated-silu geglu reglu glu" },
    { "norm", "layer", "layernorm layer-norm ln" },
    { "norm", "rms", "rmsnorm rms-norm" },
    { "position", "rotary", "rope rotary-embedding rotary-embeddings rotary-positions" },
    { "position", "learned", "absolute learned-absolute learned-positions wpe" },
    { "position", "none", "nope alibi no" },
    { "precision", "bf16",
      "bfloat16 bf16-mixed amp-bf16 bf16-amp mixed-bf16 torch.bfloat16 bf16-autocast "
      "autocast-bf16 bf16-mixed-precision mixed-precision-bf16 bf-16 bf16-true bf16-pure pure-bf16 "
      "full-bf16 bf16/fp32" },
    { "precision", "fp16",
      "float16 half fp16-mixed amp-fp16 fp16-amp mixed-fp16 torch.float16 fp16-autocast "
      "autocast-fp16 fp16-mixed-precision mixed-precision-fp16 16-mixed" },
    { "precision", "fp8",
      "float8 mxfp8 fp8-mx fp8-cs fp8-ds fp8-sc fp8-e4m3 fp8-hybrid fp8-delayed fp8-tensorwise "
      "fp8-rowwise fp8-blockwise float8-tensorwise float8-rowwise float8-blockwise fp8-current "
      "delayed-fp8 tensorwise-fp8 rowwise-fp8 blockwise-fp8 tensorwise-float8 rowwise-float8 "
      "fp8-current-scaling fp8-delayed-scaling fp8-per-tensor fp8-subchannel amp-fp8" },
    { "precision", "fp4", "nvfp4 mxfp4 float4 fp4-nv" },
    { "precision", "fp32", "float32 torch.float32" },
    { "precision", "tf32", "tensorfloat32 tensor-float-32 fp32-tf32 tf32-fp32 float32-tf32" },
    { "fp8_recipe", "delayed",
      "delayed-scaling ds fp8-ds fp8-delayed delayed-fp8 fp8-delayed-scaling" },
    { "fp8_recipe", "tensorwise",
      "current current-scaling cs fp8-cs fp8-current fp8-tensorwise float8-tensorwise per-tensor "
      "tensor-wise tensorwise-fp8 tensorwise-float8 fp8-current-scaling fp8-per-tensor" },
    { "fp8_recipe", "rowwise",
      "row-wise per-row fp8-rowwise float8-rowwise rowwise-fp8 rowwise-float8" },
    { "fp8_recipe", "blockwise",
      "block-wise fp8-blockwise float8-blockwise blockwise-fp8 sc fp8-sc subchannel "
      "fp8-subchannel" },
    { "fp8_recipe", "mxfp8", "mx fp8-mx" },
    { "exp_avg_dtype", "fp32", "float32 float torch.float32" },
    { "exp_avg_dtype", "bf16", "bfloat16 torch.bfloat16" },
    { "exp_avg_dtype", "fp16", "float16 half torch.float16" },
    { "exp_avg_dtype", "fp8", "float8 uint8 torch.uint8" },
    { "exp_avg_sq_dtype", "fp32", "float32 float torch.float32" },
    { "exp_avg_sq_dtype", "bf16", "bfloat16 torch.bfloat16" },
    { "exp_avg_sq_dtype", "fp16", "float16 half torch.float16" },
    { "exp_avg_sq_dtype", "fp8", "float8 uint8 torch.uint8" },
    { "main_grads_dtype", "fp32", "float32 float torch.float32" },
    { "main_grads_dtype", "bf16", "bfloat16 torch.bfloat16" },
    { "reduce_dtype", "fp32", "float32 float torch.float32" },
    { "reduce_dtype", "bf16", "bfloat16 torch.bfloat16" },
    { "reduce_dtype", "usual", "fp16 float16 half torch.float16" },
    { "gradient_sync", "each", "every sync-each-batch" },
    { "gradient_sync", "last", "once no-sync" },
    { "adamw_kernels", "fused", "adamw-torch-fused" },
    { "adamw_kernels", "foreach", "for-each multi-tensor adamw-torch" },
    { "optimizer", "adamw", "adam fused-adam fusedadam" },
    { "optimizer", "muon", "normuon dist-muon muon-adamw muon+adamw" },
    { "recompute", "none", "no off false 0 disabled" },
    { "recompute", "full",
      "yes on true 1 enabled all uniform uniform-1 full-recompute full-checkpointing full-block "
      "activation-checkpointing gradient-checkpointing checkpointing grad-ckpt ac remat "
      "gradient-checkpointing=true" },
    { "recompute", "selective",
      "core-attn core-attention selective-attention selective-core-attn selective-core-attention "
      "selective-ac ac-selective sac selective-recompute selective-checkpointing "
      "selective-activation-checkpointing selective-op op-selective" },
    { "attention", "flash",
      "flash-attention flash-attn flashattention flashattn fa fused fused-attention fused-attn "
      "sdpa "
      "triton xformers memory-efficient mem-efficient flex flex-attention flexattention sdpa-flash "
      "flash-sdpa pytorch-sdpa torch-sdpa scaled-dot-product-attention xformers-memory-efficient "
      "memory-efficient-attention auto default" },
    { "attention", "cudnn",
      "te transformer-engine transformerengine te-fused cudnn-attention cudnn-fused cudnn-sdpa "
      "sdpa-cudnn cudnn-flash cudnn-flash-te te-dotproductattention nvte-fused-attn" },
    { "attention", "flash-1",
      "flash1 fa1 fa-1 flash-attention-1 flash-attn-1 flashattention-1 flashattention1 flash-attn1 "
      "flash-attention1" },
    { "attention", "flash-2",
      "flash2 fa2 fa-2 flash-attention-2 flash-attn-2 flashattention-2 flashattention2 flash-attn2 "
      "flash-attention2" },
    { "attention", "flash-3",
      "flash3 fa3 fa-3 flash-attention-3 flash-attn-3 flashattention-3 flashattention3 flash-attn3 "
      "flash-attention3" },
    { "attention", "masked", "sdpa-mask sdpa-with-mask masked-sdpa attn-mask" },
    { "attention", "naive", "eager unfused non-flash math vanilla standard torch" },
    { "schedule", "1f1b", "one-f-one-b pipedream-flush non-interleaved 1f1b-non-interleaved" },
    { "schedule", "interleaved",
      "interleaved-1f1b 1f1b-interleaved interleaved1f1b virtual-pipeline vpp" },
    { "schedule", "gpipe", "afab fill-drain all-forward-all-backward" },
    { "outcome", "ok", "success succeeded completed done ran fits" },
    { "outcome", "oom", "out-of-memory cuda-oom cuda-out-of-memory" },
    { "peak_mem_kind", "allocated",
      "max-allocated memory-allocated max-memory-allocated peak-allocated "
      "torch.cuda.max-memory-allocated" },
    { "peak_mem_kind", "reserved",
      "max-reserved memory-reserved max-memory-reserved peak-reserved cached "
      "torch.cuda.max-memory-reserved" },
    { "peak_mem_kind", "device", "nvidia-smi nvml card" },
    { "head", "tokens", "yes true all lm language vocabulary" },
    { "head", "none", "no false pooled contrastive classification classifier" },
    { "moe", "", "none no dense 0 1 false" },
    { "frozen", "vision",
      "vit visual vision-encoder vision-tower vision-model image-encoder encoder" },
    { "frozen", "connector", "projector projection mm-projector adapter aligner merger" },
    { "frozen", "language", "llm lm language-model decoder" },
    { "frozen", "none", "no nothing" },
    { "overlap", "gradients",
      "gradient grads grad gradient-reduce grad-reduce overlap-grad-reduce" },
    { "overlap", "parameters",
      "parameter params param parameter-gather param-gather overlap-param-gather" },
    { "overlap", "tensor", "tp tp-comm tp-comm-overlap tensor-parallel" },
    { "overlap", "none", "no nothing" },
};
enum { WORD_COUNT = sizeof words / sizeof words[0] };

static const struct count_word {
    const char *column, *spellings;
    int64_t value;
} count_words[] = {
    { "sp", "no off false", 0 },
    { "sp", "yes on true", 1 },
    { "dropout", "no off false", 0 },
    { "dropout", "yes on true", 1 },
    { "precision_aware_optimizer", "no off false", 0 },
    { "precision_aware_optimizer", "yes on true", 1 },
    { "text_len", "no none false class-conditional", 0 },
    { "iter_time_derived", "no false", 0 },
    { "iter_time_derived", "yes true", 1 },
    { "zero_stage", "ddp no-shard none no", 0 },
    { "zero_stage", "zero1 zero-1 stage1 stage-1 distributed-optimizer", 1 },
    { "zero_stage", "zero2 zero-2 stage2 stage-2 shard-grad-op", 2 },
    { "zero_stage",
      "zero3 zero-3 stage3 stage-3 full-shard fsdp fsdp1 fsdp2 fsdp-full-shard fsdp2-full-shard "
      "hybrid-shard hsdp",
      3 },
};
enum { COUNT_WORD_COUNT = sizeof count_words / sizeof count_words[0] };

/* Names that trainers, configs and tables give the columns, in plain form. One that may mean two
 * ("batch_size") stands for none. */
static const struct column_name {
    const char *column, *others;
} column_names[] = {
    { "row_id", "id name run run-id run-name case experiment" },
    { "model", "model-name" },
    { "layers", "num-layers n-layers n-layer num-hidden-layers layer-count" },
    { "hidden", "hidden-size hidden-dim d-model n-embd" },
    { "ffn_hidden", "ffn-hidden-size intermediate-size ffn-dim d-ff" },
    { "heads", "num-heads n-heads n-head num-attention-heads attention-heads" },
    { "kv_heads", "num-kv-heads n-kv-heads num-key-value-heads num-query-groups" },
    { "head_dim", "head-size kv-channels" },
    { "vocab", "vocab-size vocabulary vocabulary-size" },
    { "seq_len", "seq seqlen seq-length sequence-length sequence-len context-length max-seq-len" },
    { "text_len", "text-tokens text-length text-seq-len context-tokens caption-tokens" },
    { "double_stream_blocks", "double-blocks num-joint-layers num-double-layers joint-blocks" },
    { "hardware", "gpu gpu-type gpu-name gpu-model device device-name accelerator" },
    { "gpus_per_node", "nproc-per-node ngpus-per-node" },
    { "gpu_count", "gpus num-gpus n-gpus ngpus number-of-gpus world-size num-devices" },
    { "tp", "tensor-parallel tensor-parallel-size tensor-model-parallel-size tp-size" },
    { "pp", "pipeline-parallel pipeline-parallel-size pipeline-model-parallel-size pp-size" },
    { "cp", "context-parallel context-parallel-size cp-size" },
    { "dp", "data-parallel data-parallel-size dp-size" },
    { "zero_stage", "zero zero-level" },
    { "micro_batch", "mbs micro-batch-size microbatch microbatch-size per-device-batch-size "
                     "per-device-train-batch-size" },
    { "grad_accum", "ga gas gradient-accumulation gradient-accumulation-steps" },
    { "global_batch", "gbs global-batch-size train-batch-size" },
    { "precision", "dtype mixed-precision" },
    { "precision_aware_optimizer", "use-precision-aware-optimizer" },
    { "recompute",
      "recomputation activation-checkpointing gradient-checkpointing activation-recompute" },
    { "attention", "attn attn-implementation" },
    { "stack", "framework software software-stack trainer" },
    { "outcome", "status result" },
    { "iter_time_s",
      "step-time step-time-s step-time-ms iter-time iter-time-ms iteration-time iteration-time-s "
      "iteration-time-ms time-per-step time-per-iteration seconds-per-step sec-per-step "
      "s-per-step "
      "time-s" },
    { "peak_mem_GiB",
      "memory memory-gib memory-gb peak-memory peak-memory-gib peak-memory-gb peak-mem peak-mem-gb "
      "max-memory max-memory-gib max-memory-gb max-memory-allocated" },
    { "notes", "note comment comments remark remarks" },
};
enum { COLUMN_NAME_COUNT = sizeof column_names / sizeof column_names[0] };

const char *measured_cell(struct arena *arena, const char *text) {
    static const char *const unsaid[] = { "-",    "?",           "n/a",     "na",         "nan",
                                          "null", "unspecified", "unknown", "not stated", "n.a." };
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    const char *cell = text[length] == '\0' ? text : arena_format(arena, "%.*s", (int)length, text);
    for (size_t i = 0; i < sizeof unsaid / sizeof unsaid[0]; i++)
        if (strcasecmp(cell, unsaid[i]) == 0) return "";
    return cell;
}

static bool is_gap(char c) {
    return c == '_' || c == '-' || isspace((unsigned char)c);
}

const char *measured_plain(struct arena *arena, const char *text) {
    char *out = arena_text(arena, text);
    size_t n = 0;
    for (const char *c = text; *c != '\0'; c++)
        if (!is_gap(*c))
            out[n++] = (char)tolower((unsigned char)*c);
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    out[n] = '\0';
    return out;
}

/* Whether `text` is one of the names in `list`, which have blanks between. */
static bool is_listed(const char *list, const char *text) {
    const size_t length = strlen(text);
    for (const char *at = list; *at != '\0'; at += *at == ' ') {
        const size_t here = strcspn(at, " ");
        if (here == length && strncmp(at, text, length) == 0) return true;
        at += here;
    }
    return false;
}

const char *measured_column_meant(struct arena *arena, const char *name) {
    const char *plain = measured_plain(arena, measured_cell(arena, name));
    for (int i = 0; i < COLUMN_NAME_COUNT; i++)
        if (strcmp(measured_plain(arena, column_names[i].column), plain) == 0 ||
            is_listed(column_names[i].others, plain))
            return column_names[i].column;
    return NULL;
}

bool measured_column_of_video(const char *name) {
    static const char *const signs[] = { "video", "clips", "frames", "fps" };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strcasestr(name, signs[i]) != NULL) return true;
    return false;
}

/* "layers=5", "5 layers", "5 of 32 layers" and "layers:5" are one. */
static const char *layers_word(struct arena *arena, const char *plain) {
    char *end;
    long count = 0;
    if (strncmp(plain, "layers", 6) == 0 && strchr(":=-", plain[6]) != NULL && plain[6] != '\0' &&
        isdigit((unsigned char)plain[7])) {
        count = strtol(plain + 7, &end, 10);
        return *end == '\0' ? arena_format(arena, "layers:%ld", count) : NULL;
    }
    if (!isdigit((unsigned char)plain[0])) return NULL;
    count = strtol(plain, &end, 10);
    if (strncmp(end, "-of-", 4) == 0) end += 4 + strspn(end + 4, "0123456789"); /* "8 of 32" */
    return strcmp(end, "-layers") == 0 ? arena_format(arena, "layers:%ld", count) : NULL;
}

static const char *word_of(struct arena *arena, const char *column, const char *plain) {
    for (int i = 0; i < WORD_COUNT; i++)
        if (strcmp(words[i].column, column) == 0 &&
            (strcmp(words[i].word, plain) == 0 || is_listed(words[i].spellings, plain)))
            return words[i].word;
    return strcmp(column, "recompute") == 0 ? layers_word(arena, plain) : NULL;
}

/* What a cell says in words that notes have ("flash-attn 2.3", "full AC", "FP32 (TF32 on)"); NULL:
 * nothing. */
static const char *word_said(const char *column, const char *cell) {
    const char *said = strcmp(column, "attention") == 0   ? measured_says_attention(cell)
                       : strcmp(column, "recompute") == 0 ? measured_says_recompute(cell)
                                                          : "";
    return said[0] != '\0' ? said : NULL;
}

/* "full (8 layers)" is 8 layers, "FP32 (TF32 on)" tf32. */
static const char *narrowed(struct arena *arena, const char *column, const char *word,
                            const char *brackets) {
    if (word == NULL) return NULL;
    const char *inside = arena_format(arena, "%.*s", (int)strcspn(brackets + 1, ")"), brackets + 1);
    if (strcmp(column, "precision") == 0 && strcmp(word, "fp32") == 0 && measured_says_tf32(inside))
        return "tf32";
    if (strcmp(column, "recompute") != 0 || strcmp(word, "full") != 0) return word;
    const char *layers = layers_word(arena, measured_plain(arena, measured_cell(arena, inside)));
    return layers != NULL ? layers : word;
}

/* "fp8 (rowwise)" is one spelling with its brackets; else what stands in them is a remark:
 * "selective (core_attn)" is selective. */
const char *measured_word(struct arena *arena, const char *column, const char *cell) {
    char *open = arena_text(arena, cell);
    for (char *c = open; *c != '\0'; c++)
        if (*c == '(' || *c == ')') *c = ' ';
    const char *word = word_of(arena, column, measured_plain(arena, measured_cell(arena, open)));
    const size_t before = strcspn(cell, "(");
    if (word == NULL && cell[before] != '\0' && before > 0) {
        const char *text = measured_cell(arena, arena_format(arena, "%.*s", (int)before, cell));
        word = narrowed(arena, column, word_of(arena, column, measured_plain(arena, text)),
                        cell + before);
    }
    return word != NULL ? word : word_said(column, cell);
}

const char *measured_word_list(struct arena *arena, const char *column, const char *cell) {
    const char *list = "";
    bool none = false;
    if (strcmp(column, "overlap") == 0 && strcasecmp(cell, "all") == 0)
        return "gradients;parameters;tensor";
    for (const char *part = cell + strspn(cell, "- "); *part != '\0';) {
        const char *option = strstr(part, " --"); /* as on a command line */
        size_t length = strcspn(part, ";,+/|");
        if (option != NULL && (size_t)(option - part) < length) length = (size_t)(option - part);
        const char *text = measured_cell(arena, arena_format(arena, "%.*s", (int)length, part));
        const char *word = measured_word(arena, column, text);
        if (word == NULL || none || (list[0] != '\0' && strcmp(word, "none") == 0)) return NULL;
        none = strcmp(word, "none") == 0;
        list = arena_format(arena, "%s%s%s", list, list[0] != '\0' ? ";" : "", word);
        part += length + (part[length] != '\0');
        part += strspn(part, "- ");
    }
    return list;
}

bool measured_count_word(struct arena *arena, const char *column, const char *cell,
                         int64_t *value) {
    const char *plain = measured_plain(arena, cell);
    for (int i = 0; i < COUNT_WORD_COUNT; i++) {
        if (strcmp(count_words[i].column, column) != 0 ||
            !is_listed(count_words[i].spellings, plain))
            continue;
        *value = count_words[i].value;
        return true;
    }
    return false;
}

static bool is_word(const char *start, const char *end, const char *word) {
    return (size_t)(end - start) == strlen(word) && strncasecmp(start, word, strlen(word)) == 0;
}

/* Whether the word that ends at `at` (blanks and dashes between) denies what follows: "not X", "than
 * on X". */
static bool denied(const char *text, const char *at) {
    static const char *const places[] = { "on", "in", "at", "the" };
    static const char *const denials[] = { "no", "not",    "non",    "without",  "than",
                                           "vs", "versus", "unlike", "excludes", "excluding" };
    static const char instead[] = "instead of";
    while (at > text && is_gap(at[-1]))
        at--;
    const size_t length = strlen(instead);
    if ((size_t)(at - text) >= length && strncasecmp(at - length, instead, length) == 0)
        return true;
    const char *start = at;
    while (start > text && isalpha((unsigned char)start[-1]))
        start--;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (start > text && is_word(start, at, places[i])) {
            for (at = start; at > text && is_gap(at[-1]);)
                at--;
            for (start = at; start > text && isalpha((unsigned char)start[-1]);)
                start--;
            break;
        }
    for (size_t i = 0; i < sizeof denials / sizeof denials[0]; i++)
        if (is_word(start, at, denials[i])) return true;
    return false;
}

static bool begins_with(const char *text, const char *const *signs) {
    for (; *signs != NULL; signs++) {
        const size_t length = strlen(*signs);
        if (strncasecmp(text, *signs, length) == 0 && !isalnum((unsigned char)text[length]) &&
            text[length] != '.')
            return true;
    }
    return false;
}

/* "packing false", "packing: off", "liger_kernel=False", "fp8_dpa=0", "liger disabled"; not "FSDP no
 * recomputation" nor "liger 0.5". */
static bool switched_off(const char *after) {
    static const char *const signs[] = {
        "false",       "off",          "is off",       "disabled",      "not used", "not installed",
        "is not used", "are not used", "was not used", "were not used", NULL
    };
    static const char *const values[] = { "none", "no", "0", NULL };
    static const char *const rest[] = { "_kernels", "_kernel", " kernels", " kernel" };
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        if (strncasecmp(after, rest[i], strlen(rest[i])) == 0) after += strlen(rest[i]);
    const size_t length = strspn(after, " :=_");
    const bool set = memchr(after, ':', length) != NULL || memchr(after, '=', length) != NULL;
    after += length;
    return begins_with(after, signs) || (set && begins_with(after, values));
}

/* Whether the text holds the word by itself, denied or not. */
static bool holds_word(const char *text, const char *word, bool wanted_denied) {
    const size_t length = strlen(word);
    for (const char *at = strcasestr(text, word); at != NULL; at = strcasestr(at + 1, word))
        if ((at == text || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[length]) &&
            (denied(text, at) || switched_off(at + length)) == wanted_denied)
            return true;
    return false;
}

bool measured_text_says(const char *text, const char *word) {
    return holds_word(text, word, false);
}

bool measured_text_denies(const char *text, const char *word) {
    return holds_word(text, word, true);
}

int64_t measured_zero_stage(const char *stack) {
    static const char marks[] = " -_";
    for (const char *at = stack; *at != '\0'; at++) {
        if (at > stack && isalnum((unsigned char)at[-1])) continue;
        if (strncasecmp(at, "ddp", 3) == 0 && !isalnum((unsigned char)at[3])) return 0;
        if (strncasecmp(at, "nanogpt", 7) == 0 && !isalnum((unsigned char)at[7]))
            return 0; /* DDP */
        if (strncasecmp(at, "gemini", 6) == 0 && !isalnum((unsigned char)at[6]))
            return 3; /* ColossalAI's, which shards parameters too */
        if (strncasecmp(at, "zero", 4) != 0) continue;
        const char *end = at + 4 + strspn(at + 4, marks);
        if (strncasecmp(end, "stage", 5) == 0) end += 5 + strspn(end + 5, marks);
        if (*end >= '0' && *end <= '3' && !isalnum((unsigned char)end[1])) return *end - '0';
    }
    return -1;
}
