/* semel queue: the messages that wait to be handled. */
#include "program/cli.h"
#include "program/command/subcommand.h"
#include "program/operate/queues.h"

const char queue_help[] =
    "usage: semel queue ls [NAME]         list queues, or the messages waiting in one\n"
    "       semel queue purge NAME        remove all messages that are waiting in a queue of the "
    "store\n"
    "What waits at a broker is not known here (-): ask the broker.\n";

int cmd_queue(int argc, char **argv)
{
    static const subcommand all[] = {{"ls", queue_ls}, {"purge", queue_purge}, {0}};
    return subcommand_run("queue", all, argc, argv);
}
