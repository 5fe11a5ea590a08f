/* See metrics_process.h. What /proc does not tell is left out. */
#include "program/admin/metrics_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void write_cpu(exposition *to)
{
    struct rusage used;
    exposition_family(to, "process_cpu_seconds", METRIC_COUNTER, "seconds",
                      "Processor time that was used, by user and system.");
    if (getrusage(RUSAGE_SELF, &used) == 0)
        exposition_seconds(to, NULL, seconds(used.ru_utime) + seconds(used.ru_stime));
}

/* The first two numbers of statm are pages: of all memory, and of what is resident. */
static int read_memory(unsigned long long out[2])
{
    char text[128] = "", *end = NULL;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    unsigned long long page = (unsigned long long)sysconf(_SC_PAGESIZE);
    if (fd >= 0)
        (void)close(fd);
    if (len <= 0)
        return 0;
    out[0] = strtoull(text, &end, 10) * page;
    out[1] = strtoull(end, NULL, 10) * page;
    return 1;
}

static void write_memory(exposition *to)
{
    unsigned long long bytes[2];
    int is_known = read_memory(bytes);
    exposition_family(to, "process_virtual_memory_bytes", METRIC_GAUGE, "bytes",
                      "Address space that is in use.");
    if (is_known)
        exposition_count(to, NULL, bytes[0]);
    exposition_family(to, "process_resident_memory_bytes", METRIC_GAUGE, "bytes",
                      "Memory that is in use.");
    if (is_known)
        exposition_count(to, NULL, bytes[1]);
}

/* Without that of the directory itself. */
static int count_descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = -1;
    while (all && readdir(all))
        count++;
    if (all)
        (void)closedir(all);
    return count - 2; /* . and .. */
}

static void write_descriptors(exposition *to)
{
    struct rlimit limit;
    int count = count_descriptors();
    exposition_family(to, "process_open_fds", METRIC_GAUGE, NULL, "Open file descriptors.");
    if (count > 0)
        exposition_count(to, NULL, (uint64_t)count);
    exposition_family(to, "process_max_fds", METRIC_GAUGE, NULL,
                      "File descriptors that may be open.");
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        exposition_count(to, NULL, limit.rlim_cur);
}

void metrics_write_process(exposition *to, int64_t started_ms)
{
    write_cpu(to);
    write_memory(to);
    write_descriptors(to);
    exposition_family(to, "process_start_time_seconds", METRIC_GAUGE, "seconds",
                      "When the process started, since 1970.");
    exposition_seconds(to, NULL, (double)started_ms / 1e3);
}
