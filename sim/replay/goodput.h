/* goodput.h - how much of the time a job that fails now and then gets ahead.
 *
 * Failures come at random with a mean time between them; the work since the last checkpoint is
 * lost. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
 * Future Generation Computer Systems 22 (2006), equations 13 (time) and 37 (interval).
 */
#ifndef BALLAST_SIM_REPLAY_GOODPUT_H
#define BALLAST_SIM_REPLAY_GOODPUT_H

/* What takes time besides the steps. */
struct goodput_loss {
    double mtbf_s;     /* of the whole job */
    double interval_s; /* useful time between checkpoints; NaN: that which loses least */
    double checkpoint_s, restart_s;
};

struct goodput {
    double fraction;   /* useful time over all time: 1 without failures and checkpoints; may be 0 */
    double interval_s; /* INFINITY: the training is over before its first checkpoint */
};

/* Of a training of so much useful time. One that is not longer than the interval writes no
 * checkpoint: a failure loses all of it. */
struct goodput goodput_of_training(const struct goodput_loss *loss, double useful_s);
/* How far the time of one such training lies from the mean of many, which is useful_s /
 * fraction. */
double goodput_deviation_s(const struct goodput_loss *loss, double useful_s);

/* The fraction of a training without end. */
double goodput_fraction(double mtbf_s, double interval_s, double checkpoint_s, double restart_s);
/* The useful time between checkpoints that loses least, in a training without end. */
double goodput_best_interval_s(double mtbf_s, double checkpoint_s);

#endif
