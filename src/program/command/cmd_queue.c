/* semel queue: the messages that wait to be handled. */
#include "program/cli.h"
#include "program/command/subcommand.h"
#include "program/operate/queues.h"

const char queue_help[] =
    "usage: semel queue ls [NAME]         list queues, or the messages waiting in one\n"
    "       semel queue purge NAME        remove all messages that are waiting in a queue of the "
    "store\n"
    "\n"
    "WAITING is what no consumer has. A broker is asked for the number; where that cannot be known "
    "it "
    "is\n"
    "\"-\", and \"reason\" says why with --json. READERS are the threads that read the queue in "
    "running\n"
    "processes. Common options: semel help common. Exit status: 0, 1 a broker refused to answer, 4 "
    "no such\n"
    "queue, 75 the store or a broker cannot be reached (the other queues are listed all the "
    "same).\n";

int cmd_queue(int argc, char **argv)
{
    static const subcommand all[] = {{"ls", queue_ls}, {"purge", queue_purge}, {0}};
    return subcommand_run("queue", all, argc, argv);
}
