/* isf_choice.c - limits of ISF from the data.
 *
 * code (ModelTC/OmniBal, test_balanced_dynamic_batch.py): with token counts rounded up to 256,
 *
 *     ratio = 16 floor((floor(mean tokens / max(mean tiles, 1)) + 1) / 16)
 *     start at Qt = 4096, Qv = floor(4096 / ratio); then Qv + 1, Qt + ratio, until the average
 *     batch exceeds the target by more than one; if none was in range by then, the same step
 *     downwards
 *
 * Each pair is packed with dp 8 and its pad and dist ratios are added; the least sum wins.
 * The program leaves out samples that exceed a pair. Its own data fit the first one; for data that
 * do not, the walk starts at the first pair that holds every sample, goes down no further than
 * there, and takes it if its average batch is above the range already. It knows tiles only: at
 * native resolution 1,024 patches, those of its tiles of 448 pixels, count as one.
 */
#include "sim/policy/batching/isf_choice.h"

#include <math.h>

enum { LENGTH_BIN = 256, RATIO_STEP = 16, START_QT = 4096, PATCHES_OF_A_TILE = 1024 };

/* What the walk counts Qv in, in the vision units of the data. */
static int64_t walk_unit(const struct dataset *d) {
    return d->vision_patches != NULL ? PATCHES_OF_A_TILE : 1;
}

static void largest_sample(const struct dataset *d, int64_t *most_tiles, int64_t *longest) {
    *most_tiles = *longest = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        int64_t tiles = batch_sample_vision(d, (uint32_t)i), length = d->samples[i].language_tokens;
        if (tiles > *most_tiles) *most_tiles = tiles;
        if (length > *longest) *longest = length;
    }
}

static void choose_by_paper(const struct dataset *d, struct isf_choice *out) {
    double tokens = 0, tiles = 0;
    int64_t most_tiles;
    largest_sample(d, &most_tiles, &out->qt);
    for (int64_t i = 0; i < d->sample_count; i++) {
        tokens += (double)d->samples[i].language_tokens;
        tiles += (double)batch_sample_vision(d, (uint32_t)i);
    }
    out->tokens_per_tile = tiles > 0 ? tokens / tiles : 0;
    out->qv = tiles > 0 ? (int64_t)floor((double)out->qt / out->tokens_per_tile) : 0;
    if (most_tiles > out->qv) out->qv = most_tiles; /* a group must hold it */
}

static int64_t ratio_of(const struct dataset *d) {
    double tokens = 0, tiles = 0, count = (double)d->sample_count;
    for (int64_t i = 0; i < d->sample_count; i++) {
        int64_t length = d->samples[i].language_tokens;
        tokens += (double)((length + LENGTH_BIN - 1) / LENGTH_BIN * LENGTH_BIN);
        tiles += (double)batch_sample_vision(d, (uint32_t)i);
    }
    tiles /= (double)walk_unit(d);
    int64_t ratio = (int64_t)floor(tokens / count / fmax(tiles / count, 1));
    return RATIO_STEP * ((ratio + 1) / RATIO_STEP);
}

static bool choose_by_code(const struct dataset *d, int64_t target, isf_try try, void *context,
                           struct isf_choice *out, struct error *err) {
    int64_t ratio = ratio_of(d);
    if (ratio < RATIO_STEP)
        return error_set(err,
                         "isf: the published choice of qv and qt needs %d language tokens for a "
                         "tile at least: give qv and qt, or set choose to \"paper\"",
                         RATIO_STEP);
    out->tokens_per_tile = (double)ratio;
    const int64_t unit = walk_unit(d);
    int64_t most_tiles, longest;
    largest_sample(d, &most_tiles, &longest);
    most_tiles = (most_tiles + unit - 1) / unit;
    int64_t qt = START_QT, qv = qt / ratio, up = 0;
    if (most_tiles > qv) up = most_tiles - qv;
    if (longest > qt + up * ratio) up = (longest - qt + ratio - 1) / ratio;
    const int64_t first_qv = qv += up, first_qt = qt += up * ratio;
    double best = INFINITY;
    bool exceeded = false;
    while (out->step_count < ISF_CHOICE_LIMIT && qv >= 1 && qv >= most_tiles && qt > LENGTH_BIN &&
           qt >= longest) {
        struct batch_balance balance;
        if (!try(context, qv * unit, qt, &balance, err)) return false;
        double size = balance.average_batch_size;
        bool kept = size >= (double)target && size <= (double)target + 1;
        out->steps[out->step_count++] = (struct isf_choice_step){ qv * unit,
                                                                  qt,
                                                                  size,
                                                                  balance.pad_ratio,
                                                                  balance.dist_ratio_vision,
                                                                  balance.dist_ratio_language,
                                                                  kept };
        double sum = balance.pad_ratio + balance.dist_ratio_vision + balance.dist_ratio_language;
        if (kept && sum < best) {
            best = sum;
            out->qv = qv * unit;
            out->qt = qt;
        }
        exceeded = exceeded || size > (double)target + 1;
        if (exceeded && isfinite(best)) break;
        qv += exceeded ? -1 : 1;
        qt += exceeded ? -ratio : ratio;
    }
    if (isfinite(best)) return true;
    if (up > 0 && exceeded) {
        out->qv = first_qv * unit;
        out->qt = first_qt;
        return true;
    }
    error_set(err, "isf: none of %ld pairs of qv and qt gives micro-batches of %ld to %ld samples",
              (long)out->step_count, (long)target, (long)target + 1);
    return error_hint(err, "give qv and qt, or change target_batch_size");
}

bool isf_choose(enum isf_rule rule, const struct dataset *dataset, int64_t target, isf_try try,
                void *context, struct isf_choice *out, struct error *err) {
    *out = (struct isf_choice){ 0 };
    if (rule == ISF_CODE) return choose_by_code(dataset, target, try, context, out, err);
    choose_by_paper(dataset, out);
    return true;
}
