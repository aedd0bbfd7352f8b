/* goodput.h - how much of the time a job that fails now and then gets ahead.
 *
 * Failures come at random with a mean time between them; the work since the last checkpoint is lost.
 * Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
 * Generation Computer Systems 22 (2006), equations 13 (time) and 37 (interval).
 */
#ifndef BALLAST_SIM_REPLAY_GOODPUT_H
#define BALLAST_SIM_REPLAY_GOODPUT_H

/* Useful time over all time: 1 without failures and checkpoints. mtbf_s is of the whole job. */
double goodput_fraction(double mtbf_s, double interval_s, double checkpoint_s, double restart_s);
/* The useful time between checkpoints that loses least. */
double goodput_best_interval_s(double mtbf_s, double checkpoint_s);

#endif
