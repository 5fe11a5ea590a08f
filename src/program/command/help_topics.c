/* See help_topics.h. */
#include "program/command/help_topics.h"

static const char common[] =
    "  -c, --config FILE   config file; default: $SEMEL_CONFIG, ./semel.yaml, "
    "/etc/semel/semel.yaml\n"
    "  --store URL         use a store without a config; write passwords as ${NAME} or "
    "${file:PATH}\n"
    "  --set PATH=VALUE    override the config for this command\n"
    "  --json              print JSON objects, one per line, instead of text\n"
    "  -n, --dry-run       show count and sample of what would change; change nothing, do not "
    "prompt\n"
    "  -y, --yes           do not prompt\n"
    "  -q, -v, --color auto|always|never, --utc, --no-pager, --timeout D (store timeout, default "
    "10s)\n";

static const char filters[] =
    "  --inbox NAME, --outbox NAME, --type TYPE   exact, or a prefix and *; repeat to match any of "
    "several\n"
    "  --state STATE, --outcome OUTCOME           see semel help inbox, semel help guarantees\n"
    "  --key KEY                                  exact; text, hex:, base64: (semel help keys)\n"
    "  --error TEXT                               substring of the error, case-insensitive\n"
    "  --since TIME, --until TIME                 start (inclusive), end (exclusive): 2h (ago), "
    "02:40 (today), 2026-03-14,\n"
    "                                             '2026-03-14 02:40', 2026-03-14T01:40:00Z\n"
    "  --limit N, --after ID                      page size; start after this ID\n"
    "  --up-to LETTER                             no letters newer than this one\n"
    "All filters must match: semel dead ls --inbox 'mail.*' --inbox invoices --since 02:40 --error "
    "'tax rate'\n"
    "A time of the day that is still to come is one of yesterday.\n";

static const char keys[] =
    "A key says which messages are copies of each other. It is printed in a form that can be "
    "entered again:\n"
    "  20713               text, if it is printable and has no spaces at its ends\n"
    "  hex:00ff3a          other bytes; also accepted: base64:AP86\n"
    "  text:hex:1          the text \"hex:1\"\n"
    "  sha256:9f86d0...    a key of more than 255 bytes, by its digest, in full\n"
    "  7:shop-eu,5:20713,  a key of several parts; or part by part: semel inbox show shop-eu "
    "20713\n"
    "After --, a key may begin with -: semel inbox show -- -17\n";

static const char handlers[] =
    "An inbox has one handler. What it does is committed with the key of the message, or the key "
    "is "
    "passed on.\n"
    "  sql     statements in the transaction of the key: exactly-once effects\n"
    "  send    messages to other queues, sent if and only if the transaction commits\n"
    "  http    a POST with Idempotency-Key; 2xx: done, 410: dead, others: retry\n"
    "  exec    a program for each message, the body on stdin, SEMEL_* set; exit 0: done, 75: "
    "retry,\n"
    "          65: dead, others: retry\n"
    "  worker  a program that stays running: JSON lines on stdin and stdout\n"
    "A message that has failed attempts_max times becomes a dead letter: semel help dead\n"
    "All options: semel help config\n";

static const char guarantees[] =
    "What happens to a message of which several copies arrive, in one process or in many, with "
    "crashes:\n"
    "  exactly-once effects   sql, send: the effect and the key are committed together\n"
    "  exactly-once effects, unless the power fails\n"
    "                         the same on a store that answers before its disk does\n"
    "  effectively once       http, exec, worker: the handler may run again after a crash, with "
    "the "
    "same\n"
    "                         key to pass on (Idempotency-Key, SEMEL_IDEMPOTENCY_KEY)\n"
    "  at least once          a store in memory: copies are recognized until the process ends\n"
    "\n"
    "Outcomes of a message:\n"
    "  processed   its handler succeeded\n"
    "  duplicate   a copy of one that was processed: nothing was done\n"
    "  failed      its handler failed; it is tried again, up to attempts_max times\n"
    "  dead        semel has given up on it: semel dead show\n"
    "  mismatch    its key is known with another fingerprint\n"
    "  stale       older than what the inbox remembers, so it may be a copy\n"
    "  missing key it has no key, so that copies cannot be recognized\n"
    "A key is remembered for the retention of its inbox; a copy that comes later is stale, or runs "
    "again.\n";

static const char exits[] =
    "  0            success, including an empty list\n"
    "  1            failed; declined at the prompt; unhealthy; some items of many failed\n"
    "  2            called wrongly; nothing was done\n"
    "  3            the config is not valid\n"
    "  4            what the command names does not exist\n"
    "  5            it exists already; a duplicate, with exec --fail-on-duplicate\n"
    "  75           unreachable or busy: the same command may work later\n"
    "  125 126 127  exec only: semel failed; not executable; not found\n"
    "  130 143      stopped by Ctrl-C or SIGTERM before completion\n";

const help_topic help_topics[] = {{"common", common},
                                  {"filters", filters},
                                  {"keys", keys},
                                  {"handlers", handlers},
                                  {"guarantees", guarantees},
                                  {"exit", exits},
                                  {0}};
