/* job_data.c - the data set of a job, and what of it the model cannot take or leaves. */
#include "sim/replay/job_data.h"

#include "sim/base/units.h"
#include "sim/base/wall_clock.h"
#include "sim/model/layer_division.h"
#include "sim/scenario/scenario_fields.h"

/* Encoders of fixed tiles have no price for anything else. */
static bool check_resolution(const struct job *job, struct error *err) {
    const struct scenario *s = job->scenario;
    if (job->dataset->vision_patches == NULL || !s->fixed_tiles) return true;
    error_set(err,
              "data set \"%s\" has images of native resolution, the encoder of model \"%s\" takes "
              "tiles of %ld pixels only",
              job->dataset->name, s->model->name,
              (long)s->model->modules[MODULE_VISION].image_size);
    return error_hint(err, "use vision_tiles instead of vision_patches, or image sizes with "
                           "dataset.tiling \"internvl\"");
}

/* A diffusion decoder without video has nothing to do. */
static bool check_video(const struct job *job, struct error *err) {
    const struct model *model = job->scenario->model;
    if (model->modules[MODULE_DIFFUSION_DECODER].layer_count == 0 || job->dataset->clip_ms != NULL)
        return true;
    error_set(err, "data set \"%s\" has no video clips for the diffusion decoder of model \"%s\"",
              job->dataset->name, model->name);
    return error_hint(err, "give each sample's clip_ms (of an image one frame's, 1000 at 1 a "
                           "second), or take a language model alone");
}

static bool has_image_tiles(const struct dataset *d) {
    int64_t tiles = 0;
    for (int64_t i = 0; i < d->sample_count; i++)
        tiles += d->samples[i].vision_tiles;
    for (int64_t i = 0; i < d->part_count; i++)
        tiles -= d->parts[i].dummy_tiles;
    return tiles > 0 && d->vision_patches == NULL;
}

/* A decoder without a language model has its text encoded, or takes none. */
static void note_encoded_text(struct job *job) {
    const struct dataset *d = job->dataset;
    const struct model *model = job->scenario->model;
    const struct module *decoder = &model->modules[MODULE_DIFFUSION_DECODER];
    if (decoder->layer_count == 0 || !decoder->text_encoded || d->clip_ms == NULL) return;
    bool text = false;
    for (int64_t i = 0; i < d->sample_count && !text; i++)
        text = d->samples[i].language_tokens > 0;
    if (text == (decoder->text_hidden > 0)) return;
    job->data_notes[job->data_note_count++] =
        arena_format(job->arena,
                     text ? "data set \"%s\" has text, the decoder of model \"%s\" takes none "
                            "(text_hidden): it is "
                            "left out"
                          : "data set \"%s\" has no text for the decoder of model \"%s\" to attend "
                            "to (text_hidden)",
                     d->name, model->name);
}

static bool has_single_frames(const struct dataset *d, const struct model *model) {
    int64_t most = 0;
    for (int64_t i = 0; d->clip_ms != NULL && i < d->sample_count && most <= 1; i++) {
        const int64_t frames = model_clip_frames(model, d->clip_ms[i]);
        most = frames > most ? frames : most;
    }
    return most == 1;
}

static void take_notes(struct job *job) {
    const struct dataset *d = job->dataset;
    const struct model *model = job->scenario->model;
    job->data_notes = arena_array(job->arena, const char *, d->note_count + JOB_OWN_NOTES);
    for (int64_t i = 0; i < d->note_count; i++)
        job->data_notes[job->data_note_count++] = d->notes[i];
    if (d->clip_ms != NULL && model->modules[MODULE_DIFFUSION_DECODER].layer_count == 0)
        job->data_notes[job->data_note_count++] =
            arena_format(job->arena,
                         "data set \"%s\" has video clips, model \"%s\" no diffusion decoder: "
                         "only their text is trained on",
                         d->name, model->name);
    note_encoded_text(job);
    const bool clips =
        d->clip_ms != NULL && model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0;
    if (clips) {
        const struct module *decoder = &model->modules[MODULE_DIFFUSION_DECODER];
        const char *padding =
            job->single_frames ? ""
                               : "clips of a micro-batch are not padded to the longest of them; ";
        job->data_notes[job->data_note_count++] = arena_format(
            job->arena, "%sframes are of %s%ld x %ld px", padding,
            d->frame_sizes != NULL ? "the data set's sizes, cut to whole patches, else of " : "",
            (long)decoder->image_size, (long)decoder->image_height);
    }
    if (!has_image_tiles(d) || d->tile_language_tokens == model->tile_language_tokens) return;
    job->data_notes[job->data_note_count++] =
        model->modules[MODULE_VISION].layer_count == 0
            ? arena_format(job->arena,
                           "data set \"%s\" has images, model \"%s\" no encoder: their tokens "
                           "are trained on as text",
                           d->name, model->name)
            : arena_format(job->arena,
                           "data set \"%s\" counts %ld language tokens for a tile, model \"%s\" "
                           "makes %ld: sequences are as long as the data set says",
                           d->name, (long)d->tile_language_tokens, model->name,
                           (long)model->tile_language_tokens);
}

bool job_load_data(struct job *job, struct error *err) {
    const struct scenario *s = job->scenario;
    double start = wall_clock_s();
    struct dataset_options options = { .tiling = &s->tiling };
    if (s->dataset_fields.tile_language_tokens > 0)
        options.tile_language_tokens = s->dataset_fields.tile_language_tokens;
    if (s->model->modules[MODULE_VISION].layer_count > 0)
        options.model_tile_language_tokens = s->model->tile_language_tokens;
    const cJSON *definition = s->dataset_fields.definition;
    bool written = definition != NULL && !cJSON_IsNull(definition);
    job->dataset = written ? dataset_from_json(s->json, definition, ".", &options, err)
                           : dataset_load_with(s->directory, s->files.dataset, &options, err);
    if (job->dataset == NULL)
        return error_context(err, "while loading the data set of scenario \"%s\"", s->name);
    if (!check_resolution(job, err) || !check_video(job, err)) return false;
    job->single_frames = has_single_frames(job->dataset, s->model);
    take_notes(job);
    job->load_s = wall_clock_s() - start;
    return true;
}

int64_t job_loading_ns(const struct job *job, const struct batch_shape *shapes, int64_t count) {
    const struct scenario_what_if *w = &job->scenario->what_if;
    if (w->data_loading_ms_per_sample == 0 && w->data_loading_ms_per_megapixel == 0) return 0;
    const struct module *vision = &job->scenario->model->modules[MODULE_VISION];
    int64_t samples = 0, patches = 0;
    for (int64_t i = 0; i < count; i++) {
        samples += shapes[i].samples;
        patches += batch_patch_count(vision, &shapes[i]);
    }
    const double megapixels =
        1e-6 * (double)patches * (double)(vision->patch_size * vision->patch_size);
    const double ms = (double)samples * w->data_loading_ms_per_sample +
                      megapixels * w->data_loading_ms_per_megapixel;
    return ns_from_seconds(ms * 1e-3 / (double)w->data_loading_workers);
}
