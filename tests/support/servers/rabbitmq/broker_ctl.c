/* rabbitmqctl, for what AMQP has no words for. See broker.h.
 *
 * It starts a virtual machine of its own, which takes more than half a second of work. What can be
 * said in Erlang is therefore said by erl_call, a small program that comes with every Erlang; where
 * there is none, rabbitmqctl does it. */
#include "support/servers/rabbitmq/broker.h"

#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CTL_DEADLINE_MS = 60000, ARGUMENTS_MAX = 16, EXPRESSION_ROOM = 1024, SAID_ROOM = 4096 };

/* Runs sh with these arguments. */
static pid_t spawn_sh(const char *const *arguments, int said)
{
    const char *all[ARGUMENTS_MAX + 2] = {"sh"};
    for (size_t i = 0; arguments[i]; i++) {
        if (i == ARGUMENTS_MAX)
            server_die("too many arguments for %s", arguments[0]);
        all[i + 1] = arguments[i];
    }
    posix_spawn_file_actions_t files;
    pid_t pid;
    int code = posix_spawn_file_actions_init(&files);
    code = code ? code : posix_spawn_file_actions_adddup2(&files, said, STDOUT_FILENO);
    code = code ? code
                : posix_spawnp(&pid, "sh", &files, NULL, (char *const *)(uintptr_t)all, environ);
    if (code)
        server_die("cannot run %s: %s", arguments[0], strerror(code));
    (void)posix_spawn_file_actions_destroy(&files);
    return pid;
}

/* Until its end; what is beyond the room is lost. */
static void listen_to(int from, char *out, size_t room, const char *name)
{
    int64_t deadline = process_now_ms() + CTL_DEADLINE_MS;
    size_t used = 0;
    char rest[256];
    for (;;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int64_t left = deadline - process_now_ms();
        if (left <= 0 || poll(&ready, 1, (int)left) == 0)
            server_die("%s does not end", name);
        int full = used + 1 >= room;
        ssize_t got =
            full ? read(from, rest, sizeof rest) : read(from, out + used, room - used - 1);
        if (got <= 0)
            break;
        used += full ? 0 : (size_t)got;
    }
    out[used] = 0;
}

/* `what`: it, for errors. */
static void run_sh(char *out, size_t room, const char *const *arguments, const char *what)
{
    char said[SAID_ROOM];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        server_die("no pipe for %s", what);
    pid_t pid = spawn_sh(arguments, ends[1]);
    (void)close(ends[1]);
    listen_to(ends[0], out ? out : said, out ? room : sizeof said, what);
    (void)close(ends[0]);
    if (process_wait(pid, CTL_DEADLINE_MS) != 0)
        server_die("%s failed: %s", what, out ? out : said);
}

void broker_ctl(char *out, size_t room, const server_place *where, const char *const *arguments)
{
    char script[SCRATCH_PATH];
    const char *all[ARGUMENTS_MAX] = {script, "-q"};
    server_entry(script, sizeof script, where, "CTL");
    for (size_t i = 0; arguments[i]; i++) {
        if (i + 3 == ARGUMENTS_MAX)
            server_die("too many arguments for rabbitmqctl %s", arguments[0]);
        all[i + 2] = arguments[i];
    }
    run_sh(out, room, all, arguments[0]);
}

/* What erl_call says is {ok, RESULT}. */
static void unwrap(char *said)
{
    static const char before[] = "{ok, ";
    size_t len = strlen(said);
    while (len && (said[len - 1] == '\n' || said[len - 1] == ' '))
        said[--len] = 0;
    if (strncmp(said, before, sizeof before - 1) != 0)
        return;
    said[len - 1] = 0;
    memmove(said, said + sizeof before - 1, len - (sizeof before - 1));
}

/* `environment` is beside the script that is rabbitmqctl for this node. */
void broker_eval(char *out, size_t room, const server_place *where, const char *expression)
{
    static const char script[] =
        "(. \"${1%/*}/environment\" && printf '%s\\n' \"$2\" |"
        " erl_call -h \"test$$\" -sname \"$RABBITMQ_NODENAME\" -timeout 60 -e 2>/dev/null) ||"
        " exec sh \"$1\" -q eval \"$2\"";
    char ctl[SCRATCH_PATH];
    server_entry(ctl, sizeof ctl, where, "CTL");
    run_sh(out, room, (const char *const[]){"-c", script, "sh", ctl, expression, NULL}, expression);
    if (strncmp(out, "{error", 6) == 0)
        server_die("%s: %s", expression, out);
    unwrap(out);
}

static int64_t eval_number(const server_place *where, const char *expression)
{
    char said[SAID_ROOM], *end;
    broker_eval(said, sizeof said, where, expression);
    long long number = strtoll(said, &end, 10);
    if (end == said)
        server_die("%s is %s", expression, said);
    return number;
}

/* Asks the queue itself, so that it is right at this moment: what RabbitMQ tells of a quorum queue
 * is old. */
int64_t broker_count(const server_place *where, const char *queue)
{
    char expression[EXPRESSION_ROOM];
    server_print(expression, sizeof expression,
                 "case rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"%s\">>)) of"
                 " {ok, Q} -> case amqqueue:get_type(Q) of"
                 " rabbit_quorum_queue -> {ok, N, _} = ra:consistent_query(amqqueue:get_pid(Q),"
                 " fun rabbit_fifo:query_messages_total/1, 30000), N;"
                 " _ -> proplists:get_value(messages, rabbit_amqqueue:info(Q, [messages])) end;"
                 " _ -> -1 end.",
                 queue);
    return eval_number(where, expression);
}

void broker_sync(const server_place *where)
{
    if (eval_number(where, "length([ok = dets:sync(T) || T <- dets:all()]).") == 0)
        server_die("RabbitMQ keeps its queues elsewhere by now");
}

int64_t broker_close_connections(const server_place *where, const char *name)
{
    char expression[EXPRESSION_ROOM], condition[EXPRESSION_ROOM / 2] = "true";
    if (name)
        server_print(condition, sizeof condition,
                     "is_list(C) andalso lists:keyfind(<<\"connection_name\">>, 1, C) =:="
                     " {<<\"connection_name\">>, longstr, <<\"%s\">>}",
                     name);
    server_print(expression, sizeof expression,
                 "length([rabbit_networking:close_connection(P, \"a test wants it\") ||"
                 " P <- rabbit_networking:connections(), [{client_properties, C}] <-"
                 " [(catch rabbit_networking:connection_info(P, [client_properties]))], %s]).",
                 condition);
    return eval_number(where, expression);
}

/* rabbit_alarm answers a request for all alarms after it has dealt with this one, and told the
 * connections. */
static void set_alarm(const server_place *where, const char *resource, int on, const char *setting)
{
    char expression[EXPRESSION_ROOM], said[SAID_ROOM];
    server_print(expression, sizeof expression,
                 "%s, %s = lists:keymember({resource_limit, %s, node()}, 1,"
                 " rabbit_alarm:get_alarms()), ok.",
                 setting, on ? "true" : "false", resource);
    broker_eval(said, sizeof said, where, expression);
    if (strncmp(said, "ok", 2) != 0)
        server_die("the alarm cannot be set: %s is %s", expression, said);
}

/* 0 is for ever above the limit; then it is again what dev/servers had set. */
void broker_alarm(const server_place *where, int on)
{
    set_alarm(where, "memory", on,
              on ? "ok = vm_memory_monitor:set_vm_memory_high_watermark(0)"
                 : "{ok, M} = application:get_env(rabbit, vm_memory_high_watermark),"
                   " ok = vm_memory_monitor:set_vm_memory_high_watermark(M)");
}

/* No disk has so much. */
void broker_disk_alarm(const server_place *where, int on)
{
    set_alarm(where, "disk", on,
              on ? "ok = rabbit_disk_monitor:set_disk_free_limit(1 bsl 80)"
                 : "{ok, L} = application:get_env(rabbit, disk_free_limit),"
                   " ok = rabbit_disk_monitor:set_disk_free_limit(L)");
}

void broker_user(const server_place *where, const char *user, const char *password)
{
    char expression[EXPRESSION_ROOM], said[SAID_ROOM];
    server_print(expression, sizeof expression,
                 "U = <<\"%s\">>, ok = (case rabbit_auth_backend_internal:exists(U) of"
                 " true -> fun rabbit_auth_backend_internal:change_password/3;"
                 " false -> fun rabbit_auth_backend_internal:add_user/3 end)"
                 "(U, <<\"%s\">>, <<\"test\">>).",
                 user, password);
    broker_eval(said, sizeof said, where, expression);
    if (strncmp(said, "ok", 2) != 0)
        server_die("no user %s: %s", user, said);
    broker_permissions(where, user, ".*", ".*", ".*");
}

void broker_permissions(const server_place *where, const char *user, const char *configure,
                        const char *write, const char *read)
{
    char expression[EXPRESSION_ROOM], said[SAID_ROOM];
    server_print(expression, sizeof expression,
                 "rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"/\">>, <<\"%s\">>,"
                 " <<\"%s\">>, <<\"%s\">>, <<\"test\">>).",
                 user, configure, write, read);
    broker_eval(said, sizeof said, where, expression);
    if (strncmp(said, "ok", 2) != 0)
        server_die("no permissions for %s: %s", user, said);
}
