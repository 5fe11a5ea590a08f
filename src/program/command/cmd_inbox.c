/* semel inbox: the keys that inboxes remember. */
#include "program/cli.h"
#include "program/command/subcommand.h"
#include "program/operate/inboxes.h"

const char inbox_help[] =
    "usage: semel inbox ls [NAME]         list inboxes, or the keys of one (--state --since "
    "--until "
    "--key --limit)\n"
    "       semel inbox show KEY...       show a key in every inbox (for a multi-part key, give "
    "all "
    "parts)\n"
    "       semel inbox forget NAME KEY   forget a key, so that its next copy runs\n"
    "       semel inbox purge NAME --older-than D\n"
    "States: done, claimed (being handled now), failed (waiting for its next attempt), dead.\n";

int cmd_inbox(int argc, char **argv)
{
    static const subcommand all[] = {{"ls", inbox_ls},
                                     {"show", inbox_show},
                                     {"forget", inbox_forget},
                                     {"purge", inbox_purge},
                                     {0}};
    return subcommand_run("inbox", all, argc, argv);
}
