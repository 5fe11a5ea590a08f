/* A seam may come from a caller built against an older header: only the members that lie within its
 * `size` are read, the rest are the system's. The fault member alone may stay NULL, which is how it
 * is in production: the test for it is all that a fault point costs. */
#include "base/seam.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t system_wall_ms(void *context)
{
    (void)context;
    return clock_ms(CLOCK_REALTIME);
}

static int64_t system_steady_ms(void *context)
{
    (void)context;
#ifdef CLOCK_BOOTTIME
    return clock_ms(CLOCK_BOOTTIME);
#else
    return clock_ms(CLOCK_MONOTONIC);
#endif
}

static void system_boot_id(void *context, char id[37])
{
    (void)context;
    id[0] = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t got = read(fd, id, 36);
    id[got == 36 ? 36 : 0] = 0;
    close(fd);
}

static void system_sleep_ms(void *context, uint32_t ms)
{
    (void)context;
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* getrandom() fails only where a sandbox forbids it. Ids and tokens must then still differ from
 * process to process and from call to call: they keep nothing secret, so clock, address and a
 * counter will do. */
static void make_do(unsigned char *bytes, size_t len)
{
    static atomic_uint_fast64_t calls;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed[] = {(uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, (uint64_t)getpid(),
                       (uint64_t)(uintptr_t)&now, atomic_fetch_add(&calls, 1)};
    for (size_t i = 0; i < len; i++) {
        hash_key key = {i / 8, seed[4]};
        bytes[i] = (unsigned char)(hash_bytes(key, seed, sizeof seed) >> (8 * (i % 8)));
    }
}

static void system_random(void *context, void *bytes, size_t len)
{
    unsigned char *at = bytes;
    (void)context;
    while (len) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno != EINTR) {
            make_do(at, len);
            return;
        }
        at += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
}

#define TAKE(member)                                                                         \
    if (given->size >= offsetof(semel_seam, member) + sizeof given->member && given->member) \
    out->member = given->member

void seam_complete(semel_seam *out, const semel_seam *given)
{
    *out = (semel_seam){.size = sizeof *out,
                        .wall_ms = system_wall_ms,
                        .steady_ms = system_steady_ms,
                        .boot_id = system_boot_id,
                        .sleep_ms = system_sleep_ms,
                        .random = system_random};
    if (!given)
        return;
    TAKE(context);
    TAKE(wall_ms);
    TAKE(steady_ms);
    TAKE(boot_id);
    TAKE(sleep_ms);
    TAKE(random);
    TAKE(fault);
}

semel_status seam_fault_slow(const semel_seam *seam, const char *point, semel_error *err)
{
    semel_status status = seam->fault(seam->context, point);
    return status ? semel_fail(err, status, "fault injected at %s", point) : SEMEL_OK;
}

uint64_t seam_random(const semel_seam *seam)
{
    uint64_t value;
    seam->random(seam->context, &value, sizeof value);
    return value;
}

uint64_t seam_random_below(const semel_seam *seam, uint64_t bound)
{
    return bound ? seam_random(seam) % bound : 0;
}

uint32_t seam_backoff_most_ms(uint32_t base_ms, uint32_t max_ms, uint32_t failures)
{
    uint64_t delay = base_ms;
    for (uint32_t i = 1; i < failures && delay < max_ms; i++)
        delay *= 2;
    return delay > max_ms ? max_ms : (uint32_t)delay;
}

uint32_t seam_backoff_ms(const semel_seam *seam, uint32_t base_ms, uint32_t max_ms,
                         uint32_t failures)
{
    uint32_t delay = seam_backoff_most_ms(base_ms, max_ms, failures);
    return (uint32_t)(delay - seam_random_below(seam, delay / 2 + 1));
}
