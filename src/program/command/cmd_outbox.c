/* semel outbox: the messages that wait to be sent. */
#include "program/cli.h"
#include "program/command/subcommand.h"
#include "program/operate/outboxes.h"

const char outbox_help[] =
    "usage: semel outbox ls [NAME]        list outboxes, or the messages waiting in one\n"
    "       semel outbox show ID          show one message\n"
    "       semel outbox lag              show how many messages are waiting, since when and why\n"
    "       semel outbox requeue NAME     make messages awaiting a retry due now (--type --error "
    "--since --limit)\n"
    "       semel outbox skip ID          give up on a message: it becomes a dead letter\n";

int cmd_outbox(int argc, char **argv)
{
    static const subcommand all[] = {{"ls", outbox_ls},     {"show", outbox_show},
                                     {"lag", outbox_lag},   {"requeue", outbox_requeue},
                                     {"skip", outbox_skip}, {0}};
    return subcommand_run("outbox", all, argc, argv);
}
