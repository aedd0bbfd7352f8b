/* printed_figures.h - of each printed number: which reading is the main one, and which comes near
 * enough.
 *
 * Several readings of an unclear text may stand beside one printed number. The main one is the
 * first of the least rank in the paper's order (paper_table.h); nearness plays no part in that.
 * GPU-days and speed-ups are figures: each counts once, met by its main reading or by another one.
 *
 *     printed_figures_judge(reproduction, tables);
 */
#ifndef BALLAST_SIM_STUDY_PRINTED_FIGURES_H
#define BALLAST_SIM_STUDY_PRINTED_FIGURES_H

#include "sim/study/reproduce/reproduction.h"

/* Fills `main`, `reading_count` and `cause` of the values and the figures of the summaries;
 * tables[i] is that of summary i. Texts live in the reproduction's arena. */
void printed_figures_judge(struct reproduction *r, const struct paper_table *const *tables);

#endif
