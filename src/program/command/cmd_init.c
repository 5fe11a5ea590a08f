/* semel init: writes a configuration that runs as it is, and the script that its exec handler
 * calls. Nothing is overwritten: if one of the files exists, none is written. */
#include "program/cli.h"
#include "program/support/arguments.h"
#include "program/support/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char init_help[] =
    "usage: semel init [DIRECTORY]\n"
    "\n"
    "Writes semel.yaml, a configuration that runs as it is (a queue in a SQLite file, a sql and "
    "an\n"
    "exec handler, one test), and send-email.sh, which the exec handler calls. Existing files are\n"
    "never overwritten.\n"
    "\n"
    "Exit status: 0 done, 1 failed, 2 called wrongly, 5 a file exists already.\n";

static const char config_text[] =
    "# Ready to run: semel run. All options: semel help config. One option: semel config explain "
    "PATH.\n"
    "version: 1\n"
    "store: sqlite:shop.db                 # or postgres://user@host/database, "
    "mariadb://user@host/database\n"
    "setup:                                # runs at every start and in semel test; must be safe "
    "to "
    "repeat\n"
    "  - CREATE TABLE IF NOT EXISTS ledger (order_id INTEGER, amount INTEGER)\n"
    "queues:\n"
    "  orders: store                       # a durable queue in the store; or "
    "amqp://host/?queue=orders\n"
    "inboxes:\n"
    "  payments:\n"
    "    from: orders\n"
    "    types: [order.placed]\n"
    "    key: json:/order_id               # messages with the same key are duplicates\n"
    "    retention: 14d                    # how long a key is remembered\n"
    "    sql:                              # commits together with the key: exactly-once effects\n"
    "      - INSERT INTO ledger (order_id, amount) VALUES (:json/order_id, :json/amount)\n"
    "  mail.receipt:\n"
    "    from: orders\n"
    "    types: [\"order.*\"]\n"
    "    exec: [./send-email.sh]           # receives a key to pass on: effectively once\n"
    "tests:\n"
    "  - name: three copies charge once\n"
    "    given: { to: orders, type: order.placed, body: { order_id: 7, amount: 10 }, copies: 3 }\n"
    "    expect: { inboxes: { payments: [processed, duplicate, duplicate] }, sql: { \"SELECT "
    "count(*) FROM ledger\": 1 } }\n";

static const char script_text[] =
    "#!/bin/sh\n"
    "echo \"$SEMEL_INBOX $SEMEL_KEY attempt $SEMEL_ATTEMPT\" >>mail.txt\n";

typedef struct init_file {
    const char *name;
    const char *text;
    mode_t mode;
    const char *what;
} init_file;

static const init_file files[] = {
    {"semel.yaml", config_text, 0644, "a SQLite queue, a sql and an exec handler, one test"},
    {"send-email.sh", script_text, 0755, "the exec handler; appends a line to mail.txt"},
};
enum { FILES = sizeof files / sizeof *files };

/* O_EXCL: what exists is never written over, even if it came between the check and the write. */
static int write_file(const char *path, const init_file *file)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->mode);
    if (fd < 0)
        return errno;
    size_t len = strlen(file->text);
    int error = write(fd, file->text, len) == (ssize_t)len ? 0 : errno ? errno : EIO;
    if (!error && fchmod(fd, file->mode) != 0)
        error = errno;
    if (close(fd) != 0 && !error)
        error = errno;
    if (error)
        (void)unlink(path);
    return error;
}

static char *path_of(const char *directory, const init_file *file)
{
    buffer path = {0};
    buffer_printf(&path, "%s%s%s", directory, *directory ? "/" : "", file->name);
    return path.data;
}

static int write_one(const char *directory, const init_file *file)
{
    buffer path = {.data = path_of(directory, file)};
    int error = write_file(path.data, file), status = CLI_OK;
    if (error == EEXIST)
        status =
            (cli_failed("init", "%s already exists; nothing was written", path.data), CLI_CONFLICT);
    else if (error)
        status = cli_failed("init", "cannot write %s: %s", path.data, strerror(error));
    else
        (void)printf("wrote %-15s %s\n", file->name, file->what);
    buffer_free(&path);
    return status;
}

/* Before the first one is written. */
static int find_existing(const char *directory)
{
    for (size_t i = 0; i < FILES; i++) {
        struct stat about;
        buffer path = {.data = path_of(directory, &files[i])};
        int exists = lstat(path.data, &about) == 0;
        if (exists)
            cli_failed("init", "%s already exists; nothing was written", path.data);
        buffer_free(&path);
        if (exists)
            return CLI_CONFLICT;
    }
    return CLI_OK;
}

int cmd_init(int argc, char **argv)
{
    static const argument_option options[] = {{0}};
    argument_list rest = {.count = 0};
    int status = arguments_read("init", argc, argv, options, &rest);
    if (!status && rest.count > 1)
        status = cli_usage("init", "it takes one directory, not %zu", rest.count);
    const char *directory = rest.count ? rest.items[0] : "";
    if (!status)
        status = find_existing(directory);
    for (size_t i = 0; !status && i < FILES; i++)
        status = write_one(directory, &files[i]);
    if (!status)
        (void)fputs("next: semel check && semel test && semel run\n", stderr);
    return status;
}
