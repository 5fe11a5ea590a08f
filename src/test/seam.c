/* A seam for tests: time moves when told, randomness repeats, faults strike where asked.
 *
 * Everything lies behind one mutex. The steady clock starts at one hour, not at zero, so that a
 * test sees at once if it is taken for the wall clock or the other way round. A plan that means
 * death kills the process with the mutex held: nothing comes after it. */
#include <inttypes.h>
#include <pthread.h>
#include <semel/test.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_WALL_MS   INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */
#define START_STEADY_MS INT64_C(3600000)

#define NAME(text) text,
static const char *const points[] = {SEMEL_FAULT_POINTS(NAME) SEMEL_FAULT_POINTS_SHARE(NAME)};
#undef NAME

enum { POINT_COUNT = sizeof points / sizeof *points };

struct semel_test_seam {
    pthread_mutex_t lock;
    semel_seam seam;
    int64_t wall_ms;
    int64_t steady_ms;
    uint64_t random;
    uint32_t boots;
    uint32_t passed[POINT_COUNT];
    size_t planned; /* index of the point; POINT_COUNT: no plan */
    uint32_t left;  /* times that it is still to be passed */
    semel_status status;
};

static void seam_lock(semel_test_seam *self)
{
    pthread_mutex_lock(&self->lock);
}

static void seam_unlock(semel_test_seam *self)
{
    pthread_mutex_unlock(&self->lock);
}

/* --- time ------------------------------------------------------------------------------------- */

static int64_t wall_ms(void *context)
{
    semel_test_seam *self = context;
    seam_lock(self);
    int64_t now = self->wall_ms;
    seam_unlock(self);
    return now;
}

static int64_t steady_ms(void *context)
{
    semel_test_seam *self = context;
    seam_lock(self);
    int64_t now = self->steady_ms;
    seam_unlock(self);
    return now;
}

static void boot_id(void *context, char id[37])
{
    semel_test_seam *self = context;
    seam_lock(self);
    (void)snprintf(id, 37, "00000000-0000-4000-8000-%012" PRIx32, self->boots);
    seam_unlock(self);
}

static void move_clock(semel_test_seam *self, int64_t wall, int64_t steady)
{
    seam_lock(self);
    self->wall_ms += wall;
    self->steady_ms += steady;
    seam_unlock(self);
}

static void sleep_ms(void *context, uint32_t ms)
{
    move_clock(context, ms, ms);
}

void semel_test_advance_ms(semel_test_seam *seam, int64_t ms)
{
    move_clock(seam, ms, ms);
}

void semel_test_jump_ms(semel_test_seam *seam, int64_t ms)
{
    move_clock(seam, ms, 0);
}

void semel_test_reboot(semel_test_seam *seam, int64_t ms)
{
    seam_lock(seam);
    seam->wall_ms += ms;
    seam->steady_ms = 0;
    seam->boots++;
    seam_unlock(seam);
}

/* --- randomness ------------------------------------------------------------------------------- */

/* SplitMix64. */
static uint64_t next_random(semel_test_seam *self)
{
    uint64_t z = (self->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void fill_random(void *context, void *bytes, size_t len)
{
    semel_test_seam *self = context;
    unsigned char *at = bytes;
    seam_lock(self);
    while (len) {
        uint64_t word = next_random(self);
        size_t part = len < sizeof word ? len : sizeof word;
        memcpy(at, &word, part);
        at += part;
        len -= part;
    }
    seam_unlock(self);
}

/* --- faults ----------------------------------------------------------------------------------- */

static size_t index_of(const char *point)
{
    size_t i = 0;
    while (i < POINT_COUNT && strcmp(points[i], point) != 0)
        i++;
    return i;
}

/* A test that waits for a point which does not exist would pass for ever. */
static size_t index_or_abort(const char *point)
{
    size_t i = index_of(point);
    if (i == POINT_COUNT) {
        static const char text[] = "semel_test: \"%s\" is no point of SEMEL_FAULT_POINTS\n";
        (void)fprintf(stderr, text, point); /* allowed: this is test code */
        abort();                            /* allowed: this is test code */
    }
    return i;
}

static void kill_process(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static semel_status pass_fault_point(void *context, const char *point)
{
    semel_test_seam *self = context;
    semel_status status = SEMEL_OK;
    size_t i = index_or_abort(point);
    seam_lock(self);
    self->passed[i]++;
    if (i == self->planned && --self->left == 0) {
        self->planned = POINT_COUNT;
        status = self->status;
        if (status == SEMEL_OK)
            kill_process();
    }
    seam_unlock(self);
    return status;
}

void semel_test_fault(semel_test_seam *seam, const char *point, uint32_t nth, semel_status status)
{
    size_t planned = point ? index_or_abort(point) : POINT_COUNT;
    seam_lock(seam);
    seam->planned = planned;
    seam->left = nth ? nth : 1;
    seam->status = status;
    seam_unlock(seam);
}

uint32_t semel_test_passed(const semel_test_seam *seam, const char *point)
{
    semel_test_seam *self = seam->seam.context; /* itself, to be locked */
    size_t i = index_of(point);
    seam_lock(self);
    uint32_t count = i < POINT_COUNT ? self->passed[i] : 0;
    seam_unlock(self);
    return count;
}

/* --- opening ---------------------------------------------------------------------------------- */

semel_status semel_test_seam_open(semel_test_seam **out, uint64_t seed, semel_error *err)
{
    semel_test_seam *self = calloc(1, sizeof *self);
    if (!self)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a test's seam");
    if (pthread_mutex_init(&self->lock, NULL)) {
        free(self);
        return semel_fail(err, SEMEL_ENOMEM, "no mutex for a test's seam");
    }
    self->seam = (semel_seam){.size = sizeof self->seam,
                              .context = self,
                              .wall_ms = wall_ms,
                              .steady_ms = steady_ms,
                              .boot_id = boot_id,
                              .sleep_ms = sleep_ms,
                              .random = fill_random,
                              .fault = pass_fault_point};
    self->wall_ms = START_WALL_MS;
    self->steady_ms = START_STEADY_MS;
    self->random = seed;
    self->planned = POINT_COUNT;
    *out = self;
    return SEMEL_OK;
}

void semel_test_seam_close(semel_test_seam *seam)
{
    if (!seam)
        return;
    pthread_mutex_destroy(&seam->lock);
    free(seam);
}

const semel_seam *semel_test_seam_get(semel_test_seam *seam)
{
    return &seam->seam;
}
