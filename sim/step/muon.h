/* muon.h - Muon's update: which matrices of a stage it orthogonalises, who of the data-parallel ranks
 * does, and what that takes.
 *
 * Of the trained blocks' matrices one state takes the place of AdamW's two moments; all other
 * parameters stay AdamW's.
 *
 *     struct muon_stage muon;
 *     muon_stage_fill(m, stage, &muon);          // 0 parameters where the optimizer is another
 *     ns += muon_update_ns(m, stage, &muon);
 */
#ifndef BALLAST_SIM_STEP_MUON_H
#define BALLAST_SIM_STEP_MUON_H

#include <stdint.h>

struct step_model;

/* q; k and v; projection; up; down: of each kind of block at most. */
enum { MUON_SHAPE_LIMIT = 64 };

struct muon_shape {
    int64_t rows, columns, count; /* of this rank's share under TP, over all blocks of the stage */
};

struct muon_stage {
    struct muon_shape shapes[MUON_SHAPE_LIMIT];
    int64_t shape_count;
    int64_t owners;    /* ranks that the matrices of each shape are dealt out to */
    double parameters; /* in all of the matrices */
    double owned;      /* in those of the rank that has the most */
    double padded;     /* owned x owners: what collectives move, empty places too */
};

void muon_stage_fill(const struct step_model *m, int64_t stage, struct muon_stage *muon);
/* Momentum, orthogonalisation and update of the matrices, with the traffic that only Muon has. */
int64_t muon_update_ns(const struct step_model *m, int64_t stage, const struct muon_stage *muon);
/* Of the all-gather of ZeRO-1 what matrices add: filled up, as wide as their owners hold them. */
double muon_gather_bytes(const struct step_model *m, const struct muon_stage *muon);
/* Of the optimizer's state, in place of so many bytes a parameter. */
double muon_state_bytes(const struct step_model *m, const struct muon_stage *muon,
                        double state_bytes);

#endif
