/* Runs a fuzz target as an ordinary test, by any compiler: all inputs of its corpus, then as many
 * changed ones as it is told. A number of inputs, not a time, so that a run can be repeated: the
 * seed is fixed unless it is given.
 *
 *     fuzz_url [--rounds N] [--seed N] [--dictionary FILE] CORPUS|INPUT…
 *
 * The target runs in a child, which shares the current input with us: however the child ends
 * (abort, signal, a sanitizer's exit), the input is still here to be kept, and its path is
 * printed. */
#include "mutate.h"
#include "property.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUT_MAX = 8192, HANGS_AFTER_S = 120 };

typedef struct current {
    unsigned char bytes[INPUT_MAX];
    size_t len;
    unsigned long run;
    int done;        /* all inputs */
    char where[512]; /* it comes from: a file; empty if it was made */
} current;

typedef struct options {
    unsigned long rounds;
    uint64_t seed;
} options;

static blobs inputs, words;
static current *shared;

static _Noreturn void die(const char *what, const char *name)
{
    (void)fprintf(stderr, "fuzz: %s: %s: %s\n", what, name, strerror(errno));
    exit(2);
}

static void add(blobs *to, const void *bytes, size_t len)
{
    to->all = realloc(to->all, (to->count + 1) * sizeof *to->all);
    if (!to->all)
        die("memory", "an input");
    to->all[to->count++] = (blob){exact_copy(bytes, len), len};
}

/* --- one input -------------------------------------------------------------------------------- */

static void run_current(void)
{
    void *copy = exact_copy(shared->bytes, shared->len);
    shared->run++;
    (void)alarm(HANGS_AFTER_S);
    (void)LLVMFuzzerTestOneInput(copy, shared->len);
    free(copy);
}

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        die("cannot read", path);
    shared->len = fread(shared->bytes, 1, INPUT_MAX, file);
    if (ferror(file) || fgetc(file) != EOF)
        die("unreadable, or longer than an input may be", path);
    (void)fclose(file);
    (void)snprintf(shared->where, sizeof shared->where, "%s", path);
}

static void run_file(const char *path)
{
    load(path);
    add(&inputs, shared->bytes, shared->len);
    run_current();
}

/* In the order of their names: the directory's own differs from one machine to the next. */
static void run_directory(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0)
        die("cannot list", path);
    for (int i = 0; i < count; i++) {
        char name[512];
        (void)snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            run_file(name);
        free(entries[i]);
    }
    free(entries);
}

static void run_path(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        die("there is no", path);
    if (S_ISDIR(about.st_mode))
        run_directory(path);
    else
        run_file(path);
}

static void run_changed(const options *o)
{
    mutator m = {.state = o->seed, .inputs = &inputs, .words = &words};
    shared->where[0] = 0;
    for (unsigned long i = 0; i < o->rounds; i++) {
        shared->len = mutate(&m, shared->bytes, INPUT_MAX);
        run_current();
    }
}

/* --- words ------------------------------------------------------------------------------------ */

/* libFuzzer's format: name="word" on each line, with \\, \" and \xAB; # begins a comment. */
static void read_word(const char *line)
{
    char word[256];
    size_t len = 0;
    const char *at = strchr(line, '"');
    if (line[0] == '#' || !at)
        return;
    while (*++at && *at != '"' && len < sizeof word) {
        unsigned byte = (unsigned char)*at;
        if (*at == '\\' && at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1)
            at += 3;
        else if (*at == '\\')
            byte = (unsigned char)*++at;
        word[len++] = (char)byte;
    }
    add(&words, word, len);
}

static void read_dictionary(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file)
        die("cannot read", path);
    while (fgets(line, sizeof line, file))
        read_word(line);
    (void)fclose(file);
}

/* --- all of them ------------------------------------------------------------------------------ */

static _Noreturn void run_all(const options *o, char *const paths[])
{
    for (; *paths; paths++)
        run_path(*paths);
    if (!inputs.count)
        die("there is no input in", "the corpus");
    run_changed(o);
    shared->done = 1;
    exit(0); /* where a sanitizer looks for leaks */
}

static void keep_input(const char *program)
{
    const char *slash = strrchr(program, '/');
    char path[4096];
    if (!getcwd(path, sizeof path - 128))
        die("cannot find", "the directory");
    size_t used = strlen(path);
    (void)snprintf(path + used, sizeof path - used, "/%.64s-%lu.failed",
                   slash ? slash + 1 : program, shared->run);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(shared->bytes, 1, shared->len, file) != shared->len || fclose(file) != 0)
        die("cannot write", path);
    (void)fprintf(stderr, "the input is in %s; again: %s %s\n", path, program, path);
}

static int report(const char *program, const options *o, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && shared->done) {
        printf("%lu inputs\n", shared->run);
        return 0;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        return 2;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        (void)fprintf(stderr, "this input takes longer than %d s\n", HANGS_AFTER_S);
    (void)fprintf(stderr, "input %lu failed%s%s (--seed %llu)\n", shared->run,
                  shared->where[0] ? ": " : "", shared->where, (unsigned long long)o->seed);
    if (shared->done)
        (void)fprintf(stderr, "it was the last; a leak may be of any of them\n");
    keep_input(program);
    return 1;
}

static int run_in_child(const char *program, const options *o, char *const paths[])
{
    int status = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("memory", "the input");
    pid_t child = fork();
    if (child < 0)
        die("fork", program);
    if (!child)
        run_all(o, paths);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid", program);
    return report(program, o, status);
}

int main(int argc, char **argv)
{
    options o = {.seed = 1};
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--rounds") == 0)
            o.rounds = strtoul(argv[at + 1], NULL, 10);
        else if (strcmp(argv[at], "--seed") == 0)
            o.seed = strtoull(argv[at + 1], NULL, 10);
        else if (strcmp(argv[at], "--dictionary") == 0)
            read_dictionary(argv[at + 1]);
        else
            break;
    }
    if (at >= argc || strncmp(argv[at], "--", 2) == 0) {
        (void)fprintf(stderr,
                      "usage: %s [--rounds N] [--seed N] [--dictionary FILE] CORPUS|INPUT...\n",
                      argv[0]);
        return 2;
    }
    return run_in_child(argv[0], &o, argv + at);
}
