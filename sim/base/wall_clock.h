/* wall_clock.h - how long something takes on this machine; no simulated time.
 *
 *     const double start_s = wall_clock_s();
 *     work();
 *     took_s = wall_clock_s() - start_s;
 */
#ifndef BALLAST_SIM_BASE_WALL_CLOCK_H
#define BALLAST_SIM_BASE_WALL_CLOCK_H

/* Seconds since some moment; never goes back, whatever is done to the time of day. */
double wall_clock_s(void);

#endif
