#include "base/wait.h"

int64_t wait_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* allowed: see the header */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t wait_clock_ms(void)
{
    return wait_clock_ns() / 1000000;
}

struct timespec wait_until(int64_t at_ms)
{
    return (struct timespec){at_ms / 1000, (long)(at_ms % 1000) * 1000000};
}

struct timespec wait_until_ns(int64_t at_ns)
{
    return (struct timespec){at_ns / 1000000000, (long)(at_ns % 1000000000)};
}

int wait_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error)
        return error;
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error)
        error = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

/* Cut short by a signal, it is asked for again. */
void wait_nap_us(uint32_t us)
{
    struct timespec nap = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&nap, NULL); /* allowed: see the header */
}
