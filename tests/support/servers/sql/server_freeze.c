/* See server_freeze.h. The processes of a server are the first one, whose number is in its file,
 * and its children. */
#include "support/servers/sql/server_freeze.h"

#include "support/process/process.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 60000 };

static _Noreturn void die(const char *why)
{
    (void)fprintf(stderr, "freezing a server: %s\n", why);
    abort();
}

static long first_process(const server_own *own)
{
    char line[32];
    FILE *file = fopen(own->at.pid_file, "r");
    if (!file || !fgets(line, sizeof line, file))
        die("its process is not known");
    (void)fclose(file);
    return strtol(line, NULL, 10);
}

/* Parent and state of a process, from /proc; 0 if there is none. The name in brackets may hold
 * anything. */
static long parent_of(long pid, char *state)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t len = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[len] = 0;
    const char *behind = strrchr(text, ')');
    if (!behind || strlen(behind) < 4)
        return 0;
    *state = behind[2];
    return strtol(behind + 4, NULL, 10);
}

/* How many of them are not stopped. */
static int signal_all(long first, int number)
{
    int running = 0;
    DIR *processes = opendir("/proc");
    if (!processes)
        die("no /proc");
    for (const struct dirent *at; (at = readdir(processes));) {
        char state = 0;
        long pid = strtol(at->d_name, NULL, 10);
        if (pid <= 0 || (parent_of(pid, &state) != first && pid != first) || state == 'Z')
            continue;
        running += state != 'T';
        (void)kill((pid_t)pid, number);
    }
    (void)closedir(processes);
    return running;
}

void server_own_freeze(const server_own *own)
{
    long first = first_process(own);
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    while (signal_all(first, SIGSTOP)) { /* the first one may still have been starting others */
        if (process_now_ms() > deadline)
            die("it does not stop");
        process_nap();
    }
}

void server_own_thaw(const server_own *own)
{
    (void)signal_all(first_process(own), SIGCONT);
}
