/* sweep_team.c - MPI for the sweep, and what stands in for it in a build without.
 *
 * Collectives are begun and then tested with sleeps between: an MPI that waits by spinning would
 * take the cores from the members that work. When a process of the job dies, mpirun ends the others
 * with SIGTERM; member 0 then says what is kept.
 */
#include "sim/study/sweep/sweep_team.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "sim/base/arena.h"

struct sweep_team {
    int member, count;
};

int sweep_team_member(const struct sweep_team *team) {
    return team != NULL ? team->member : 0;
}

int sweep_team_count(const struct sweep_team *team) {
    return team != NULL ? team->count : 1;
}

static char *copy_of(const void *bytes, size_t size, size_t *total) {
    char *copy = memory_alloc(size + 1);
    if (size > 0) memcpy(copy, bytes, size);
    *total = size;
    return copy;
}

#ifdef BALLAST_MPI
#include <mpi.h>

static void wait_for(MPI_Request *request) {
    /* Longer and longer: short waits end soon, long ones cost nothing. */
    enum { FIRST_NS = 20 * 1000, LAST_NS = 5 * 1000 * 1000 };
    struct timespec pause = { 0, FIRST_NS };
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < LAST_NS) pause.tv_nsec += pause.tv_nsec / 4;
    }
}

static void say_what_is_kept(int signal_number) {
    static const char sentence[] =
        "error: a process of the sweep ended or the job was cancelled; the rows stored so far are "
        "kept, and the same command goes on from them\n";
    ssize_t written = write(STDERR_FILENO, sentence, sizeof sentence - 1);
    (void)written; /* nobody is left to be told */
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* mpirun and srun set these; MPI_Init() alone would start a daemon for nothing. */
static bool is_started_by_mpi(void) {
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]) != NULL) return true;
    return false;
}

static void begin(struct sweep_team *team) {
    int level;
    if (!is_started_by_mpi()) return;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) return;
    MPI_Comm_rank(MPI_COMM_WORLD, &team->member);
    MPI_Comm_size(MPI_COMM_WORLD, &team->count);
    if (team->count > 1 && team->member == 0) signal(SIGTERM, say_what_is_kept);
}

static void end(void) {
    int begun = 0;
    MPI_Initialized(&begun);
    if (!begun) return;
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_for(&request);
    signal(SIGTERM, SIG_DFL);
    MPI_Finalize();
}

static void gather(const struct sweep_team *team, const void *bytes, size_t size, int *sizes,
                   int *begins, char **all, size_t *total) {
    ballast_check(size <= INT_MAX);
    int mine = (int)size;
    MPI_Request request;
    MPI_Iallgather(&mine, 1, MPI_INT, sizes, 1, MPI_INT, MPI_COMM_WORLD, &request);
    wait_for(&request);
    *total = 0;
    for (int i = 0; i < team->count; i++) {
        begins[i] = (int)*total;
        *total += (size_t)sizes[i];
        ballast_check(*total <= INT_MAX);
    }
    *all = memory_alloc(*total + 1);
    MPI_Iallgatherv(bytes, mine, MPI_BYTE, *all, sizes, begins, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_for(&request);
}
#else
static void begin(struct sweep_team *team) {
    (void)team;
}

static void end(void) {
}

static void gather(const struct sweep_team *team, const void *bytes, size_t size, int *sizes,
                   int *begins, char **all, size_t *total) {
    (void)team;
    sizes[0] = (int)size;
    begins[0] = 0;
    *all = copy_of(bytes, size, total);
}
#endif

struct sweep_team *sweep_team_join(void) {
    struct sweep_team *team = memory_alloc(sizeof *team);
    *team = (struct sweep_team){ 0, 1 };
    begin(team);
    return team;
}

void sweep_team_leave(struct sweep_team *team) {
    if (team == NULL) return;
    end();
    free(team);
}

char *sweep_team_gather(struct sweep_team *team, const void *bytes, size_t size, size_t *total) {
    char *all;
    if (sweep_team_count(team) == 1) return copy_of(bytes, size, total);
    int *sizes = memory_alloc(sizeof *sizes * (size_t)team->count);
    int *begins = memory_alloc(sizeof *begins * (size_t)team->count);
    gather(team, bytes, size, sizes, begins, &all, total);
    free(sizes);
    free(begins);
    return all;
}

char *sweep_team_broadcast(struct sweep_team *team, const void *bytes, size_t size, size_t *total) {
    return sweep_team_gather(team, bytes, team->member == 0 ? size : 0, total);
}

bool sweep_team_agree(struct sweep_team *team, bool ok, struct error *err) {
    if (sweep_team_count(team) == 1) return ok;
    struct verdict {
        bool ok, located, internal;
        char text[sizeof err->text];
    } mine = { .ok = ok };
    if (!ok) {
        mine.located = err->located;
        mine.internal = err->internal;
        memcpy(mine.text, err->text, sizeof mine.text);
    }
    /* The text only where there is one. */
    size_t total, size = ok ? offsetof(struct verdict, text) : sizeof mine;
    char *all = sweep_team_gather(team, &mine, size, &total);
    bool agreed = true;
    for (size_t at = 0; at < total && agreed;) {
        struct verdict one = { 0 };
        memcpy(&one, all + at, offsetof(struct verdict, text));
        if (!one.ok) memcpy(&one, all + at, sizeof one);
        at += one.ok ? offsetof(struct verdict, text) : sizeof one;
        agreed = one.ok;
        if (agreed) continue;
        *err = (struct error){ .located = one.located, .internal = one.internal };
        memcpy(err->text, one.text, sizeof one.text);
    }
    free(all);
    return agreed;
}
