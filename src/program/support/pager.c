/* See pager.h. The text is kept in a file without a name, so that its length is known before a
 * pager is started, and a short text needs none. */
#include "program/support/pager.h"

#include "program/support/memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int kept = -1; /* stands in for the standard output */
static int terminal = -1;

/* --- which pager ------------------------------------------------------------------------------ */

static int is_installed(const char *name)
{
    const char *path = getenv("PATH");
    buffer file = {0};
    int found = 0;
    for (; path && *path && !found; path += strcspn(path, ":"), path += *path == ':') {
        file.len = 0;
        buffer_printf(&file, "%.*s/%s", (int)strcspn(path, ":"), path, name);
        found = access(file.data, X_OK) == 0;
    }
    buffer_free(&file);
    return found;
}

/* NULL: none. An empty variable, or cat, turns it off. */
static const char *pager_command(void)
{
    const char *wanted = getenv("SEMEL_PAGER");
    if (!wanted)
        wanted = getenv("PAGER");
    if (!wanted)
        return is_installed("less") ? "less -FRX" : NULL;
    return *wanted && strcmp(wanted, "cat") != 0 ? wanted : NULL;
}

static struct winsize screen(int fd)
{
    struct winsize size = {0};
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size : (struct winsize){0};
}

static int is_wanted(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && term && strcmp(term, "dumb") != 0 &&
           screen(STDOUT_FILENO).ws_row > 1 && pager_command();
}

void pager_begin(int off)
{
    if (off || kept >= 0 || !is_wanted())
        return;
    (void)fflush(stdout);
    kept = memfd_create("semel", MFD_CLOEXEC);
    terminal = dup(STDOUT_FILENO);
    if (kept >= 0 && terminal >= 0 && dup2(kept, STDOUT_FILENO) >= 0)
        return;
    (void)close(kept);
    (void)close(terminal);
    kept = terminal = -1;
}

/* --- showing ---------------------------------------------------------------------------------- */

static char *read_kept(size_t *len)
{
    struct stat is = {0};
    (void)fstat(kept, &is);
    char *text = must_alloc((size_t)is.st_size + 1);
    ssize_t got = pread(kept, text, (size_t)is.st_size, 0);
    *len = got > 0 ? (size_t)got : 0;
    return text;
}

/* Bytes are counted as columns: a line with other letters may count as two. */
static int is_long(const char *text, size_t len, struct winsize size)
{
    size_t rows = 0, column = 0;
    for (size_t i = 0; i < len && rows < size.ws_row; i++) {
        int ends = text[i] == '\n' || (size.ws_col && ++column > size.ws_col);
        rows += ends != 0;
        column = ends ? 0 : column;
    }
    return rows >= size.ws_row;
}

static void write_all(const char *text, size_t len)
{
    for (ssize_t wrote; len > 0; text += wrote, len -= (size_t)wrote) {
        wrote = write(STDOUT_FILENO, text, len);
        if (wrote < 0 && errno == EINTR)
            wrote = 0;
        if (wrote < 0)
            return;
    }
}

/* In the child. The pager reads the file from its beginning. */
static _Noreturn void become_pager(void)
{
    (void)lseek(kept, 0, SEEK_SET);
    if (dup2(kept, STDIN_FILENO) >= 0)
        (void)execl("/bin/sh", "sh", "-c", pager_command(), (char *)NULL);
    _exit(127);
}

/* 0 if the pager could not be run. Ctrl-C is for the pager. */
static int run_pager(void)
{
    int status = 0;
    struct sigaction before, ignore = {.sa_handler = SIG_IGN};
    pid_t pid = fork();
    if (pid == 0)
        become_pager();
    if (pid < 0)
        return 0;
    (void)sigaction(SIGINT, &ignore, &before);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)sigaction(SIGINT, &before, NULL);
    return !WIFEXITED(status) || (WEXITSTATUS(status) != 126 && WEXITSTATUS(status) != 127);
}

void pager_end(void)
{
    size_t len;
    if (kept < 0)
        return;
    (void)fflush(stdout);
    (void)dup2(terminal, STDOUT_FILENO);
    char *text = read_kept(&len);
    if (!is_long(text, len, screen(terminal)) || !run_pager())
        write_all(text, len);
    free(text);
    (void)close(kept);
    (void)close(terminal);
    kept = terminal = -1;
}
