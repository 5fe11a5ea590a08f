/* Workflows of crash_workflows.c in which handlers queue their effects, in each mode. What is
 * queued travels with the commit, in queued mode together with the marker: so the points are fewer
 * there, and what lies between them is one round trip. A claim's queued effects are in the
 * transaction that completes it: they happen once. */
#include "support/scenario/crash.h"

#include "support/process/process.h"

#include <string.h>

#define WHOLE "receive.begun receive.marked receive.handled receive.committed "
#define SHORT "receive.handled receive.committed "
#define COUNT "count.stored count.committed "
#define FAIL  "fail.stored fail.committed "
#define BURY  "bury.stored bury.committed "

typedef struct variant {
    const char *of;
    const char *name;
    semel_mode mode;
    const char *points; /* NULL: the same */
} variant;

static const variant variants[] = {
    {"receive", "receive, statements queued", SEMEL_TRANSACTION, NULL},
    {"batch", "batch, statements queued", SEMEL_TRANSACTION, NULL},
    {"claim", "claim, statements queued", SEMEL_CLAIM, NULL},
    {"relay", "relay, statements queued", SEMEL_TRANSACTION, NULL},
    {"hand-off", "hand-off, statements queued", SEMEL_TRANSACTION, NULL},
    {"replay in claim mode", "replay in claim mode, statements queued", SEMEL_CLAIM, NULL},
    {"receive", "receive in queued mode", SEMEL_QUEUED, SHORT "send.stored "},
    {"receive a redelivery", "receive a redelivery in queued mode", SEMEL_QUEUED, NULL},
    {"fail", "fail in queued mode", SEMEL_QUEUED, WHOLE COUNT FAIL "send.stored "},
    {"bury", "bury in queued mode", SEMEL_QUEUED, WHOLE COUNT FAIL BURY "send.stored "},
    {"batch", "batch in queued mode", SEMEL_QUEUED, NULL},
    {"hand-off", "hand-off in queued mode", SEMEL_QUEUED, NULL},
    {"replay", "replay in queued mode", SEMEL_QUEUED, NULL},
};

static const crash_workflow *find(const char *name)
{
    for (size_t i = 0; i < crash_workflow_count; i++)
        if (strcmp(crash_workflows[i].name, name) == 0)
            return &crash_workflows[i];
    process_give_up(__FILE__, __LINE__, name);
}

size_t crash_queued_workflows(crash_workflow out[CRASH_QUEUED_MAX])
{
    size_t count = sizeof variants / sizeof *variants;
    _Static_assert(sizeof variants / sizeof *variants <= CRASH_QUEUED_MAX, "raise the limit");
    for (size_t i = 0; i < count; i++) {
        out[i] = *find(variants[i].of);
        out[i].mode = variants[i].mode;
        out[i] = crash_in_transaction(&out[i]);
        out[i].name = variants[i].name;
        out[i].queued = 1;
        if (variants[i].points)
            out[i].points = variants[i].points;
    }
    return count;
}
