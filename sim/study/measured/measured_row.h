/* measured_row.h - a row of measured runs on its way to a scenario: measured_scenario.c checks and
 * completes it, measured_layout.c places it on its GPUs, measured_document.c writes it down. Of no use outside these files.
 */
#ifndef BALLAST_SIM_STUDY_MEASURED_ROW_H
#define BALLAST_SIM_STUDY_MEASURED_ROW_H

#include <string.h>
#include "costmodel/cost_model.h"
#include "sim/study/measured/measured_scenario.h"

enum measured_fit { FIT_NOT_ASKED, FIT_YES, FIT_NO, FIT_NOT_SIMULATED };

struct measured_row {
    const struct measured_context *context;
    struct measured_run run; /* completed */
    struct measured_scenario *out;
    int64_t note_count;
    int64_t tp, pp, cp, dp, vpp, zero_stage, zero_group, micro_batch, global_batch;
    bool sp;
    const char *backend, *recompute, *attention;
    int64_t recompute_layers;           /* of layers:N; -1 otherwise */
    bool recompute_unsaid;              /* neither its cell nor its notes say */
    bool sharding_unsaid;               /* nor its stack's name */
    enum measured_fit fit;              /* of its document as it stands */
    const char *vision;                 /* its module; NULL: text alone */
    const char *images_in;              /* the cell that tells of images where no modality does */
    int64_t vision_side, vision_patch;  /* pixels along its tiles and their patches */
    bool vision_own_side, vision_whole; /* the side is not its file's; an image is one tile */
    int64_t tiles, language_tokens;     /* of a sample, where all are alike */
    const char *dataset;                /* a shipped one; NULL: samples of one length */
    bool by_modality;                   /* its batches are LLaVA's */
    bool pools;                         /* an image becomes one token, of the mean of its patches */
    bool anyres;                        /* its images are cut as LLaVA-NeXT's, unpadded */
};

/* An empty cell is -1. */
static inline int64_t measured_given(int64_t value, int64_t fallback) {
    return value >= 0 ? value : fallback;
}

static inline bool measured_holds(const char *text, const char *word) {
    return strstr(text, word) != NULL;
}

/* measured_scenario.c. Why the row is skipped, as its detail tells: what is wrong with this cell; the text that it holds.
 * Both return `skip`. */
enum validation_skip measured_skip_at(struct measured_row *row, enum validation_skip skip,
                                      const char *column, const char *why);
enum validation_skip measured_skip_text(struct measured_row *row, enum validation_skip skip,
                                        const char *column, const char *text);
/* The cell holds one of these words; else its detail tells which there are. */
bool measured_is_one_of(struct measured_row *row, const char *column, const char *text,
                        const char *const *names);
/* measured_layout.c. Degrees, sharding, batch and recomputation, with notes for empty cells. */
enum validation_skip measured_place(struct measured_row *row);
/* Of the same file: TP and PP that only the stack's name or the notes say, as if the cells did. */
void measured_read_degrees(struct measured_row *row);

/* Adds to what `notes` of the row say: "column: what stands in its place". Those beyond
 * MEASURED_NOTE_LIMIT are dropped. */
void measured_row_note(struct measured_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* measured_names.c. The profile of scenarios/hardware for a source's name of a GPU; NULL, with the
 * reason. */
const char *measured_hardware(const struct measured_context *context, const char *wanted,
                              const char **why_not);
/* measured_cards.c. How many GPUs the name counts, and in a node; 0: it does not say. */
struct measured_cards {
    int64_t count, per_node;
};
struct measured_cards measured_cards_of(const char *hardware);
/* Fills the row's empty cells with them, or notes that they differ. */
void measured_count_cards(struct measured_row *row);
/* The profile of the source's own machine, where one is shipped ("machine_of"), else the usual
 * one. */
const char *measured_machine(const struct measured_context *context, const char *usual,
                             const char *source);
/* The profile of the card joined by bridges of as many as the text tells of ("<card>-bridge4"), a
 * node each; NULL: it tells of none, or they have no profile. */
const char *measured_bridged(const struct measured_context *context, const char *card,
                             const char *text, int64_t *cards);
/* "; its memory is 80 GB, not 64": what to add where a source's GPU has another size than its
 * profile; "" where none is said, or it is another way to count the same chips. */
const char *measured_other_memory(struct arena *arena, const char *wanted, const char *profile);
/* measured_stack.c. The stack of a row that is a file of the user's. */
enum validation_skip measured_read_own_stack(struct measured_row *row);
/* Any other, with notes for what its name does not say. */
void measured_choose_stack(struct measured_row *row);
/* Those that stand for stacks which nothing tells are there. */
bool measured_has_fallbacks(const struct measured_context *context, struct error *err);
/* It asks for kernels as the profile has them. */
bool measured_names_no_stack(const struct measured_run *run);
/* What scenarios without a stack have in the place of one: no cause, no factor. */
const struct stack *measured_no_stack(void);
/* Notes for launches that the source waited for and its stack does not simulate. */
void measured_note_launches(struct measured_row *row);
/* measured_framework.c. The words that stacks have for what trained the run, where its stack's name
 * is known by half or not at all; NULL: the name says it, or nothing does. */
const char *measured_framework(struct arena *arena, const struct stack_list *list,
                               const struct measured_run *run, bool divided);
/* The name, or what of it names somebody's code where its other words ("fsdp2") would hide that. */
const char *measured_code(struct arena *arena, const struct stack_list *list, const char *name,
                          bool divided);
/* measured_training.c: the section "training". */
void measured_add_training(cJSON *root, struct measured_row *row);
/* Whether its name or notes say that nothing was compiled. */
bool measured_is_eager(const struct measured_run *run);
/* measured_release.c. The year of the first release of a framework that the text names
 * ("transformers 4.36", "torch 2.1.2"); 0: none. */
int64_t measured_release_year(const char *text);
/* Whether the first release of a product in the text is one of "trl 1.8-1.12", or of "trl 1.13-". */
bool measured_release_says(struct arena *arena, const char *text, const char *releases);
/* Whether the first date in the text, "2025-10-15" or "October 2025", is of "2025-08:2025-12", or of
 * "2025-08:" and later. */
bool measured_text_is_dated(const char *text, const char *months);
/* Of the first release in the text of what a stack of that name runs on. */
int64_t measured_release_year_under(const char *stack, const char *text);
/* The year that the stack's name says or its release is of, else that of its source's arXiv number,
 * else 2022 of Megatron-LM in fp16 on A100, adapters apart, which the second tells; 0: none. And whether there
 * is one, and none after `last`. */
int64_t measured_year(const struct measured_run *run);
bool measured_year_is_of_fp16(const struct measured_run *run);
bool measured_of_year(const struct measured_run *run, int64_t last);
/* measured_machine.c. A cluster of scenarios/clusters that measured runs name. */
struct known_machine {
    const char *name;
    struct cluster_preset preset;
};
/* Reads those with "words" into the context. */
bool measured_machines_load(struct measured_context *context, struct error *err);
/* The one whose word the row's source or notes say, with the row's GPU and as many in a node;
 * NULL. */
const struct known_machine *measured_known_machine(const struct measured_row *row);
/* The GPU of the machine that the row names, where its hardware names the family and nothing against it
 * ("A100" on Perlmutter); else `usual`. */
const char *measured_machines_part(struct measured_row *row, const char *usual);
/* GPUs of a node of the machine that a hardware cell is the name of; 0: of none. */
int64_t measured_machine_node(const struct measured_context *context, const char *hardware);
/* The GPU of the machines of that name ("4x p4d.24xlarge"); NULL: there is none, or it says more. */
const char *measured_machines_gpu(const struct measured_context *context, const char *name);
/* The GPU that a hardware file of the user's names; NULL, with the reason. */
const char *measured_hardware_file(struct arena *arena, const char *path, const char **why_not);
/* measured_samples.c. The modality where the row states none, with notes for what is not read of
 * it. */
void measured_choose_modality(struct measured_row *row);
/* Tokens, tiles or data set of its samples; false: no vision encoder fits. */
bool measured_choose_samples(struct measured_row *row);
/* measured_encoder.c. The module of scenarios/models/modules for the row's name of a vision
 * encoder, with its tiles; false: none fits, or several do. */
bool measured_choose_encoder(struct measured_row *row);
/* Tiles of a sample's images. */
int64_t measured_count_tiles(struct measured_row *row);
/* Patches along a side that the connector makes one token: the row's, else as usual. */
int64_t measured_image_merge(const struct measured_row *row);
/* The shipped encoders, by name, with commas between. */
const char *measured_encoder_names(const struct measured_context *context);
/* measured_fit.c. What the finished document of the row keeps in host memory; then more recomputation
 * than is usual where nothing is said and the run would not fit otherwise. Both may simulate. */
void measured_row_offload(struct measured_row *row);
void measured_row_recompute(struct measured_row *row);
/* Last, where neither the micro-batch nor how often is accumulated is said and there are no stages:
 * the most samples, by doubling, with which it fits. */
void measured_row_micro_batch(struct measured_row *row);
/* Whether the document as it stands does, or by no more than the band of memory does not. */
enum measured_fit measured_row_fit(struct measured_row *row);
/* measured_stages.c. Notes where its pipeline is cut, if the layers do not divide or an
 * encoder goes before them. */
void measured_row_stages(struct measured_row *row);
/* measured_lora.c. Whether the row trains adapters: it gives a rank or targets, or its model or
 * notes say LoRA; those beside weights of 4 or 8 bits, the column that says so, else NULL. */
bool measured_has_lora(const struct measured_run *run);
const char *measured_quantised_lora(const struct measured_run *run);
/* Section `lora` of the row's model, with notes for what stands in empty cells. */
void measured_add_lora(cJSON *model, struct measured_row *row);
/* Mixtures of experts, and models with layers that are no transformer's, as their names tell. */
bool measured_model_has_experts(struct arena *arena, const char *model);
bool measured_model_is_hybrid(struct arena *arena, const char *model);
/* Encoder and decoder (T5), an encoder of text (BERT), a model that reads images (LLaVA, "-VL-"). */
bool measured_model_has_two_stacks(struct arena *arena, const char *model);
bool measured_model_is_encoder(const char *model);
bool measured_model_sees(struct arena *arena, const char *model);
/* Whether the head is the token embedding's table: as the notes say, else as the public model of the name
 * has it, else as GPTs do. */
bool measured_model_is_tied(const struct measured_context *context, const struct measured_run *run,
                            bool gpt);
/* measured_shape.c: whether that of the public model of its name and shape is; -1: no such model, or
 * it is not said of it. */
int64_t measured_public_tie(const struct measured_context *context, const struct measured_run *run);

/* measured_diffusion.c. A row of a diffusion transformer; what of it cannot be simulated, with the
 * cell that says so; the tokens of text that its blocks attend to, where its cell is empty; the
 * decoder of its model. */
bool measured_is_diffusion(const struct measured_run *run);
struct measured_doubt {
    enum validation_skip skip;
    const char *column, *cell;
};
struct measured_doubt measured_doubt_diffusion(struct arena *arena, const struct measured_run *run);
/* A model's name that is one of diffusion. */
bool measured_names_diffusion(struct arena *arena, const char *model);
/* Known by its name to hold weights for the text, and how many of its blocks do is not said. */
bool measured_lacks_streams(struct arena *arena, const struct measured_run *run);
void measured_choose_text(struct measured_row *row);
void measured_add_decoder(cJSON *definition, struct measured_row *row);
/* measured_sequence.c. cp_kind, cp_heads and cp_balanced of the layout. */
void measured_add_sequence(cJSON *layout, struct measured_row *row);
/* measured_document.c. Widths, norms, activation and biases of the row's blocks. */
void measured_add_shape(cJSON *module, struct measured_row *row);

/* The scenario of a row that was completed; owned by the caller. */
cJSON *measured_document(struct measured_row *row);

#endif
