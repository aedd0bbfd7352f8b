/* validation_page.c - the page's fixed text, its tables, and the measured-run format. */
#include "sim/cli/validation_page.h"

#include <glob.h>
#include <math.h>
#include <string.h>
#include "calibrate/fit/check.h"

bool validation_shipped_rows(struct cli *cli, enum shipped_rows rows, const char *const **paths,
                             int64_t *count, struct error *err) {
    const char *pattern =
        arena_format(cli->arena, "%s/../calibrate/measured/%s/*.csv",
                     cli->scenario_options.directory, rows == ROWS_UNSEEN ? "unseen" : "runs");
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return error_set(err, "no rows are given, and no shipped ones match %s", pattern);
    const char **list = arena_array(cli->arena, const char *, (int64_t)found.gl_pathc);
    for (size_t i = 0; i < found.gl_pathc; i++)
        list[i] = arena_text(cli->arena, found.gl_pathv[i]);
    *paths = list;
    *count = (int64_t)found.gl_pathc;
    globfree(&found);
    return true;
}

static const char head[] =
    "# Validation\n"
    "\n"
    "Made by `ballast validate --markdown --plot docs/images/validation.png > docs/VALIDATION.md`; "
    "do not edit.\n"
    "\n"
    "Measured training steps of public sources "
    "([calibrate/measured/runs](../calibrate/measured/runs/README.md)) beside their\n"
    "simulation. A star marks a row that a factor of its software stack was fitted on "
    "(`calibrate/measured/steps.csv`), or that\n"
    "what encoders and diffusion take more was found from (`encoder_factor` of "
    "`scenarios/bands.json`); such rows\n"
    "count in no statistic. Error = predicted / measured - 1. The band holds 80 % of the residuals "
    "of rows that nothing was\n"
    "fitted on (`ballast calibrate bands`); an exclamation mark says that more than a tenth of the "
    "operators' time is priced\n"
    "outside the measured range. By case: rows of one shape, layout and batch count once.\n"
    "\n"
    "![predicted over measured step time](images/validation.png)\n"
    "\n";

static const char format[] =
    "## The measured-run format\n"
    "\n"
    "What `ballast validate ROWS.csv` reads: a CSV with a header row, columns in any order, an "
    "empty cell where the source does\n"
    "not say. Columns that are not listed are ignored with a note. `row_id`, `hardware`, "
    "`gpu_count` and `iter_time_s` must be there.\n"
    "A count may be followed by what changes nothing of it (\"2048 max\", \"8 H100 GPUs\", \"16 "
    "(2 x 8)\"); a unit or a factor (\"2 nodes\",\n"
    "\"16 per GPU\", \"4096 x 2\") is a value that cannot be, as are steps outside 1e-6 to 3e7 s "
    "and memories outside 0.001 to 1e6 GiB.\n"
    "\n"
    "| column | meaning |\n"
    "|---|---|\n"
    "| row_id, source, model, modality | label; `text`, `vision+text`, `encoder`: the language "
    "model's "
    "columns are of one in which all tokens attend to all, or `diffusion`: a diffusion "
    "transformer of images or video, see below |\n"
    "| layers, hidden, ffn_hidden, ffn, norm, position, qk_norm, heads, kv_heads, head_dim, vocab, "
    "moe | "
    "language model; ffn `gelu`, `gelu-new` (its formula written out), `quick-gelu`, `swiglu`, "
    "`relu2`; norm `layer`, `rms`; position `rotary`, `learned`, `none` (ALiBi's, too); qk_norm "
    "`none`, `head`, `all-heads`; vocab as the head has it: "
    "eager heads of 50,257 words are slower than of 50,304; moe is free text where the model is "
    "not dense |\n"
    "| seq_len, sample_len, micro_batch, grad_accum, global_batch | tokens of a sequence (\"2048 "
    "max\": the longest; \"128k\": 131,072); mean length of the samples of text packed into it, "
    "where they attend within themselves; sequences |\n"
    "| text_len, double_stream_blocks | `diffusion` rows: tokens of the text that each block "
    "attends to, 0 or `none`: no text; of `layers` so many have weights of their own for the text, "
    "and all attend to video and text at once (empty: cross attention) |\n"
    "| hardware, gpus_per_node, gpu_count, nic_Gbit_per_s_per_gpu, nics_per_node | a profile of "
    "scenarios/hardware, a path to one of yours (`my/gpu.json`), or a name of the GPU (\"NVIDIA "
    "H100 "
    "80GB HBM3\", \"8xH100\") or of a cloud's machine (\"p5.48xlarge\"); nics_per_node empty: as "
    "many as GPUs, less where each had less than 100 Gbit/s "
    "|\n"
    "| tp, sp, cp, pp, vpp, schedule, ep, dp | layout; schedule `1f1b`, `interleaved`, `gpipe` "
    "|\n"
    "| zero_stage, zero_group | 0 to 3 (FSDP full shard: 3); GPUs of a shard group, empty: all "
    "of dp |\n"
    "| precision, fp8_recipe | `bf16`, `fp16`, `fp8`, `fp4`, `fp32`, `tf32`; `delayed`, "
    "`tensorwise` "
    "(current "
    "scaling), `rowwise`, `blockwise`, `mxfp8`: a precision of that name (\"mxfp8\") or the notes "
    "say "
    "it too |\n"
    "| precision_aware_optimizer, exp_avg_dtype, exp_avg_sq_dtype, main_grads_dtype | "
    "Megatron-core's optimizer of that name: 1; `fp32`, `bf16`, `fp16`, `fp8` "
    "(main_grads_dtype: the first two); the notes say it too (\"precision-aware "
    "optimizer, moments in bf16\", \"--exp-avg-dtype bf16\") |\n"
    "| reduce_dtype | what gradients are reduced in over data-parallel ranks, `fp32` or `bf16` "
    "(Megatron-LM's --grad-reduce-in-bf16, FSDP's reduce_dtype), where it is not as usual; the "
    "notes say it too (\"gradients reduced in bf16\") |\n"
    "| gradient_sync, adamw_kernels | `each` or `last`: when FSDP reduces gradients that "
    "accumulate; `fused` or `foreach`: how PyTorch's AdamW runs; stack and notes say it too "
    "(\"reduced every micro-batch\", \"no_sync\", sync_each_batch; \"AdamW fused\", "
    "adamw_torch_fused) |\n"
    "| optimizer | `adamw` or `muon` (matrices of blocks by Muon, the rest by AdamW); stack and "
    "notes say it too (\"Muon for the blocks\") |\n"
    "| recompute, attention | `none`, `selective`, `full`, `layers:N` of the whole model "
    "(Megatron's recompute-num-layers are a stage's); `flash`, `flash-1`, "
    "`flash-2`, `flash-3`, `cudnn`, `masked`, `naive` |\n"
    "| offload_blocks | blocks whose kept activations wait in host memory "
    "(--cpu-offloading-num-layers) |\n"
    "| overlap | what a source states to run beside compute: `gradients`, `parameters`, "
    "`tensor`, with semicolons between, or `none` |\n"
    "| dropout, deterministic | 1 or a probability: with dropout, hidden and of attention, 2: "
    "hidden alone; "
    "`kernels`, "
    "or `filled` where new tensors are filled too |\n";

static const char last_columns[] =
    "| vision_model, images_per_sample, image_wh, image_merge, frozen | `vision+text` rows: a "
    "module of "
    "scenarios/models/modules or a name of one, images, pixels as `336x336` or `anyres` "
    "(LLaVA-NeXT), patches along a side "
    "that the connector makes one token (all of them: their mean, through one linear layer), "
    "frozen "
    "modules (`vision;connector`). Encoders of free resolution (Qwen2-VL to Qwen3-VL, Pixtral) "
    "take an "
    "image as one tile of its own size, the others cut it into tiles of theirs |\n"
    "| head | `tokens`: all pass a head over the vocabulary and the loss; `none`: one vector a "
    "sample does at most (contrastive, classification), which is not simulated |\n"
    "| lora_rank, lora_targets | adapters beside the frozen language model or diffusion "
    "transformer: columns between their "
    "two matrices, and linear layers as in `model.lora` with semicolons between; a model or note "
    "that says LoRA stands for both, one of \"all linear layers\" for the latter |\n"
    "| outcome | `ok`, or `oom` for a run that did not fit |\n"
    "| stack | software stack and year (\"NeMo 25.04\", \"megatron-core-2024\"), a path to a file "
    "of yours (`my/stacks/nemo-2025.json`, as `ballast calibrate fit --steps` writes it), or "
    "`none`: kernels as the profile has them, what the row leaves blank as with a stack of such "
    "a layout. An unknown name "
    "takes the nearest of its family; what the notes say of Transformers or PyTorch, DDP, FSDP "
    "or DeepSpeed, eager or compiled kernels and weights in bf16 completes a name that leaves it "
    "open, and the year of the source's arXiv number one that has none, noted in the row. What "
    "they say of the loss tells too: Liger, cut cross entropy, chunked_nll or TRL's release, a "
    "loss that \"stands outside\" of what is compiled. "
    "Notes of CUDA_LAUNCH_BLOCKING=1 make each pass wait for its "
    "launches where the family has such a stack (Megatron-DeepSpeed), and are else noted as not "
    "simulated |\n"
    "| iter_time_s, iter_time_derived | seconds of an optimizer step; 1: computed from tokens/s "
    "|\n"
    "| peak_mem_GiB, peak_mem_kind | per GPU, not scored where it is more than the card has; "
    "`allocated`, `reserved`, `device` |\n"
    "| notes | free text; a machine or instance type that it or the source names (`words` of a "
    "file "
    "in scenarios/clusters: \"Jean Zay\", \"p5.48xlarge\", \"A3 High\") lends its network |\n"
    "\n";

/* Of measured diffusion transformers, and of spellings. */
static const char more_format[] =
    "A `diffusion` row (\"text-to-video\", \"t2i\", \"DiT\") is one of a diffusion transformer. "
    "The "
    "shape is its decoder's, seq_len the tokens of a sample's\n"
    "latents (an image's or a clip's patches) that a block attends over, and a sample is one of "
    "them; "
    "vocab is not read. With text it is of the\n"
    "kind of Wan and PixArt: cross attention, one layer of the timestep for all blocks, rotary "
    "positions; with double_stream_blocks of Flux's:\n"
    "that layer in each block and stream. Without text it is DiT's: that layer in\n"
    "each block (6 h^2), learned positions. Latents and text come encoded: a vision_model, or a "
    "note of "
    "a VAE that encodes online, says\n"
    "that they do not, and the row is skipped. So are models that are known by their names to have "
    "other kinds of joint attention (CogVideoX,\n"
    "Mochi, HiDream) or convolutions (SDXL); of SD3 the row must say how many blocks.\n"
    "\n"
    "Other spellings of a word are read as it (\"bfloat16\", \"flash_attention_2\", "
    "\"full_shard\"); one that differs by more than case and\n"
    "dashes is noted, and so are a profile or an encoder that goes by another name. Numbers may "
    "have thousands (\"4,096\"); \"n/a\", \"-\"\n"
    "and the like are empty cells.\n"
    "\n";

static const char blanks[] =
    "What stands in the place of an empty cell; each such cell is listed in `notes` of "
    "`--json`:\n"
    "\n"
    "| empty | is taken as |\n"
    "|---|---|\n"
    "| modality | `vision+text` with a vision_model, images or a frozen encoder, else `text` |\n"
    "| all of the shape | that of the public model whose name the row's model holds "
    "(scenarios/models and its public_shapes.csv; of a `diffusion` row in diffusion_shapes.csv "
    "there), unless a cell of the "
    "row says another |\n"
    "| text_len | that of the public model, else 512, Wan's |\n"
    "| double_stream_blocks | that of the public model (FLUX.1, HunyuanVideo, Qwen-Image) |\n"
    "| ffn | `gelu` for the families of GPT, OPT, BLOOM, MPT, and `encoder` and `diffusion` rows; "
    "else `swiglu` |\n"
    "| positions, biases | learned and everywhere with `gelu`, `gelu-new`, `quick-gelu` and of "
    "`encoder` rows; else rotary and none; rotary too where a GPT's name or notes say \"rotary\" "
    "or \"RoPE\", and not \"learned positions\" |\n"
    "| norm, qk_norm | as usual with ffn, `layer` of `encoder` rows; as the family of the model's "
    "name or of its brackets (Qwen3, Gemma 3 and 4, OLMo 2, nanochat, Wan 2, FLUX, HunyuanVideo, "
    "Qwen-Image), else of each head where the notes say \"QK norm\" |\n"
    "| deterministic | as the notes say (\"deterministic kernels\", \"--deterministic-mode\"); "
    "else none |\n"
    "| norms behind each branch, capped logits | both in Gemma 2 and 4, the norms in Gemma 3 |\n"
    "| whether the head is the embedding's table | as the notes say (\"embeddings tied\", "
    "\"untied\"); else not by LitGPT and Thunder; else as the public model of its name, width and "
    "vocabulary has it (Qwen's and Llama 3.2's small sizes do); else GPTs' is, but for NeoX's, "
    "Pythia's and Phi's |\n"
    "| ffn_hidden | 8/3 hidden (gated) or 4 hidden |\n"
    "| vocab | 51,200 for GPTs and encoders, 1,000 for ViT and DeiT, 32,000 otherwise |\n"
    "| layers | the size in the model's name |\n"
    "| heads, kv_heads, head_dim | as the source's row of the same width, else near 128 wide; "
    "heads; hidden / heads |\n"
    "| gpus_per_node | as built with the GPU: 8, 72 for GB200 and GB300, of which a source may say "
    "4 or 8, a tray (unless its notes say NVL4) |\n"
    "| gpu_count, dp, tp, pp, cp | as the notes say (\"TP 4, PP 2\"), else the one that follows "
    "from the others; tp and pp else 1 |\n"
    "| nic_Gbit_per_s_per_gpu | that of a machine that is named, else 400; 800 for B300 and GB300, "
    "200 for A100, A800 and GH200, 50 for "
    "V100; below 100 GPUs share a "
    "NIC |\n"
    "| sp | as the stack's file says |\n"
    "| overlap, dropout | as the notes say (\"overlap-grad-reduce\", \"no TP overlap\", \"no "
    "dropout\", but for adapters' dropout), else as the stack's file says |\n"
    "| how cp shares a sequence | as the notes or the stack's name say (\"Ulysses\", \"Ulysses 8 x "
    "ring 2\", "
    "\"ring attention\", \"cp-comm-type a2a\", \"all-gather based CP\"; of a ring \"zigzag\" or "
    "\"load balanced\", \"contiguous chunks\" or \"not load balanced\"), else as the stack's file; "
    "balanced where neither says; gathered where PyTorch's FlexAttention is said |\n"
    "| recompute | as the notes say (\"full AC\", \"recompute-activations\", \"no gradient "
    "checkpointing\"), else as the stack's file; `selective`, else `full`, where nothing is said "
    "and a run that is not `oom` would not fit by more than the band of memory (but by stacks "
    "whose recipes offload) |\n"
    "| offload_blocks | 0; by a stack whose FSDP recipes offload (`offloads_to_fit`) the fewest by "
    "which the run fits |\n"
    "| zero_stage | as the stack's name or the notes say (\"ZeRO-3\", \"FULL_SHARD\"), else as the "
    "stack's file, else 3 for FSDP without pipeline, else 1; where nothing is said, the lowest "
    "stage from there on by which a run that is not `oom` fits (of Megatron 1, by NVIDIA's recipes "
    "3 where nothing else divides the model). What was chosen so that a run fits, recomputation "
    "and offloading too, is in no table of fits and its memory is not scored |\n";

static const char other_blanks[] =
    "| micro_batch, global_batch | from the others of global_batch = micro_batch x grad_accum x "
    "dp; micro_batch else 1 or, without stages and where nothing says how often is accumulated, "
    "the most by doubling with which it fits |\n"
    "| precision | bf16, fp16 on V100 |\n"
    "| fp8_recipe | delayed, with torchao tensorwise |\n"
    "| attention | as the notes say (\"flash-attn 2\", \"unfused attention\"), else `naive` where "
    "the stack's name has a year up to 2022, else `flash` |\n"
    "| vision_model | that of a model of scenarios/models whose name the row's model holds |\n"
    "| lora_rank, lora_targets | what the notes say behind LoRA or in a clause that begins with it "
    "(\"rank 64 beside q and v\", 4 to 1,024), else 64 by Qwen's own script, 16 by Unsloth and "
    "MLPerf's, else 8; every linear layer by Axolotl, LLaMA-Factory, ms-swift, Unsloth, Surogate, "
    "NeMo AutoModel and Qwen's own script, linear_qkv and linear_proj by "
    "MLPerf's, linear_qkv by Megatron's, else q_proj and v_proj as PEFT; of a `diffusion` row "
    "those of Diffusers' scripts. Notes of \"weights in fp32\" or \"base model in fp32\" make "
    "the frozen ones so, where nothing shards them; \"adapters in bf16\" the adapters, which PEFT "
    "keeps in fp32 |\n"
    "| adapters' dropout | as the notes say (\"lora_dropout 0.05\"), else ms-swift's and Qwen's, "
    "else none; MLPerf's is not priced |\n"
    "| images_per_sample, image_wh, image_merge | 1; one tile of the encoder; 2 for InternViT, "
    "else "
    "1 |\n"
    "| head | `none` where an image becomes one token, and of an `encoder` named ViT, DeiT, Swin, "
    "BEiT, MAE, EVA, DINO or DiT over at most 21,841 classes; else `tokens` |\n"
    "| stack | one whose word stands in the source's name (haotian-liu/LLaVA), else one that runs "
    "such "
    "a layout, with a wider band |\n"
    "| peak_mem_kind | `allocated` |\n"
    "\n"
    "Empty, without a note: moe, ep, vpp, zero_group, frozen (none), schedule "
    "(that of vpp), outcome (`ok`), what was not measured.\n"
    "Besides, a pipeline whose layers do not divide evenly counts embedding and head as layers "
    "if that makes it even, and DeepSpeed's\n"
    "fills its stages one by one, and other cuts are noted block by block, as is any through an "
    "encoder and its language model; samples of one image "
    "whose longest alone is given are those of "
    "lcs-558k-one-tile (language frozen) or\n"
    "llava-665k, padded to the longest of their micro-batch, in LLaVA's own order where the "
    "model is LLaVA: noted, too.\n"
    "`ballast validate --scenario ROW_ID` prints the scenario of a row.\n"
    "\n"
    "Reasons to skip a row, told with the line and the column:";

static void percent(double value) {
    if (isnan(value))
        fputs(" - |", stdout);
    else
        printf(" %s |", cli_cell(value * 100, 0, 1, false).text);
}

static void print_group_row(const struct validation_group *g, const char *name) {
    printf("| %s | %ld | %ld | %ld |", name, (long)g->rows, (long)g->simulated,
           (long)g->calibrated);
    percent(g->time.mean_abs);
    percent(g->time_by_case.mean_abs);
    percent(g->time.median_abs);
    percent(g->time.p90_abs);
    percent(g->time.worst);
    percent(g->time.mean_signed);
    percent(g->band_coverage);
    percent(g->memory.mean_abs);
    percent(g->memory_of[READING_DEVICE].mean_abs);
    putchar('\n');
}

static void print_group_table(const struct validation *v) {
    puts("| source | rows | simulated | fitted | mean | by case | median | p90 | worst | signed | "
         "in band | memory | card |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    double by_source = 0, by_source_signed = 0, sources = 0;
    for (int64_t i = 0; i < v->group_count; i++) {
        const struct validation_group *g = &v->groups[i];
        print_group_row(g, g->source);
        if (g->time.count == 0) continue;
        by_source += g->time_by_case.mean_abs;
        by_source_signed += g->time_by_case.mean_signed;
        sources++;
    }
    if (v->text.rows > 0 && v->multimodal.rows > 0) {
        print_group_row(&v->text, "text models");
        print_group_row(&v->multimodal, "images, video, encoders alone");
    }
    print_group_row(&v->all, "all");
    printf("\nEach source counted once, by case: mean absolute error %s %%, mean signed error "
           "%s %%. Half of the bands are\nnarrower than %s %%.\n\n",
           cli_cell(100 * by_source / sources, 0, 1, false).text,
           cli_cell(100 * by_source_signed / sources, 0, 1, true).text,
           cli_cell(100 * v->all.median_half_width, 0, 1, false).text);
}

static void print_groups(const struct validation *v) {
    puts("## By source\n\nErrors in percent, of rows that nothing was fitted on. Memory: "
         "readings of the framework's allocator that no cause of a stack\nwas read from; card: "
         "readings of the whole card (nvidia-smi), those of full cards left out.\n");
    print_group_table(v);
    printf(
        "| measured | predicted to fit | of them close | predicted out of memory | of them close "
        "|\n|---|--:|--:|--:|--:|\n| fitted | %ld | %ld | %ld | %ld |\n| out of memory | %ld | %ld "
        "| %ld | %ld |\n\n",
        (long)v->confusion[1][1], (long)v->close[1][1], (long)v->confusion[1][0],
        (long)v->close[1][0], (long)v->confusion[0][1], (long)v->close[0][1],
        (long)v->confusion[0][0], (long)v->close[0][0]);
    puts("Close: the band of memory (80 % of the readings above lie within it) reaches the "
         "capacity. Readings of a caching allocator\nthat has filled the card (97 % or more) tell "
         "only that the run fitted; row by row they are marked.\n");
}

/* Rows that neither a factor nor a band was made of. */
static void print_unseen(const struct validation *unseen) {
    puts("## Runs that nothing was fitted on\n\n"
         "Rows of [calibrate/measured/unseen](../calibrate/measured/unseen/README.md), collected "
         "after the factors and the bands above: no factor and no band is fitted to them; two "
         "constants, the wait for the last rank and what kernels bring with them, were fitted to "
         "the calibration rows in sight of these (docs/MODEL.md, section 2), and so was the number "
         "of sources from which on a band counts them (section 9). Causes were searched "
         "in them since, so this table tells how well they are described; what they showed at "
         "first sight, which is what to expect of runs from "
         "elsewhere, stands in that README. Row by row: "
         "`ballast validate calibrate/measured/unseen/*.csv`.\n");
    print_group_table(unseen);
}

static void print_rows(const struct validation *v) {
    puts("## Row by row\n\n| row | stack | measured s | predicted s | error % | band % | memory "
         "GiB | predicted |\n|---|---|--:|--:|--:|--:|--:|--:|");
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *r = &v->rows[i];
        if (r->skip != SKIP_NOTHING) {
            printf("| %s | %s | | | | | | %s |\n", r->measured->row_id, r->measured->stack,
                   validation_skip_name(r->skip));
            continue;
        }
        printf("| %s%s | %s |", r->measured->row_id, r->calibrated_on ? " *" : "", r->stack->name);
        if (isnan(r->measured->iter_time_s))
            printf(" | %.4g | |", r->predicted_s);
        else
            printf(" %.4g | %.4g | %s |", r->measured->iter_time_s, r->predicted_s,
                   cli_cell(100 * r->relative_error, 0, 1, true).text);
        printf(" %s%s |", band_text(r->band, "", 1).text, r->inside_range ? "" : " !");
        if (!isnan(r->measured->peak_mem_GiB))
            printf(" %s %s%s | %s |\n", cli_cell(r->measured->peak_mem_GiB, 0, 1, false).text,
                   memory_reading_name(r->reading), r->memory_used ? " *" : "",
                   cli_cell(r->predicted_peak_GiB, 0, 1, false).text);
        else
            puts(" | |");
    }
    putchar('\n');
}

static void print_factors(const struct validation *v) {
    puts("## What calibration left\n\nOne factor on kernel times per stack, GPU family and "
         "precision, and one on attention where the stack's kernel asks for\nit; the causes that "
         "the stacks state are in [scenarios/stacks](../scenarios/stacks).\n\n"
         "| stack | GPU | precision | kernels | attention | rows |\n|---|---|---|--:|--:|---|");
    const struct stack *seen[64];
    int64_t seen_count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct stack *stack = v->rows[i].stack;
        bool known = stack == NULL || stack->borrows || seen_count == 64;
        for (int64_t k = 0; k < seen_count && !known; k++)
            known = seen[k] == stack;
        if (known) continue;
        seen[seen_count++] = stack;
        for (int64_t k = 0; k < stack->factor_count; k++) {
            const struct stack_factor *f = &stack->factors[k];
            printf("| %s | %s | %s | %.3f | %.3f |", stack->name, f->gpu,
                   precision_name(f->precision), f->kernel_time_factor, f->attention_time_factor);
            for (const char **id = f->calibrated_on; *id != NULL; id++)
                printf("%s %s", id == f->calibrated_on ? "" : ",", *id);
            puts(" |");
        }
    }
    putchar('\n');
}

/* Prices against the microbenchmarks that the profiles were fitted from. */
static void print_check(struct cli *cli) {
    static const char *const files[] = { "gemm", "attention", "nccl" };
    puts("## Microbenchmarks\n\n`ballast calibrate check` on the shipped measurements, which the "
         "profiles were fitted from; the error of points that were\nheld back is what `ballast "
         "calibrate fit` prints. Groups of at least 100 rows; errors in percent.\n\n"
         "| operator | GPU | library | rows | median | p90 | signed "
         "|\n|---|---|---|--:|--:|--:|--:|");
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        struct error err = { 0 };
        struct calibrate_check check;
        const char *path = arena_format(cli->arena, "%s/../calibrate/measured/%s.csv.gz",
                                        cli->scenario_options.directory, files[f]);
        if (!calibrate_check_file(cli->arena, cli->scenario_options.directory, NULL, path, &check,
                                  &err))
            continue;
        for (int64_t i = 0; i < check.group_count; i++) {
            const struct calibrate_group *g = &check.groups[i];
            if (g->row_count < 100) continue;
            printf("| %s | %s | %s | %lld | %.1f | %.1f | %+.1f |\n", g->operator_name, g->gpu,
                   g->framework, (long long)g->row_count, 100 * g->median_abs_relative_error,
                   100 * g->p90_abs_relative_error, 100 * g->mean_signed_relative_error);
        }
    }
    putchar('\n');
}

void validation_page(struct cli *cli, const struct validation *v, const struct validation *unseen) {
    fputs(head, stdout);
    print_groups(v);
    if (unseen != NULL) print_unseen(unseen);
    print_factors(v);
    print_rows(v);
    print_check(cli);
    fputs(format, stdout);
    fputs(last_columns, stdout);
    fputs(more_format, stdout);
    fputs(blanks, stdout);
    fputs(other_blanks, stdout);
    for (int skip = SKIP_NOTHING + 1; skip < VALIDATION_SKIP_COUNT; skip++)
        printf("%s %s", skip > 1 ? ";" : "", validation_skip_name((enum validation_skip)skip));
    puts(".");
}
