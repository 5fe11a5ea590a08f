/* A key must be remembered for as long as its message can be delivered again. A delivery is settled
 * when all its inboxes are, so the slowest reader of a queue decides: its attempts, and the waits
 * between them. */
#include "program/config/check.h"
#include "program/config/complete.h"
#include "program/config/inboxes.h"
#include "program/support/units.h"

#include <string.h>

/* The waits between the attempts of an inbox on a queue. */
static uint64_t redelivery_ms(const queue_config *queue, const inbox_config *inbox)
{
    uint64_t sum = 0, wait = queue->consumer.backoff_ms, most = queue->consumer.backoff_max_ms;
    for (uint32_t i = 1; i < inbox->options.attempts_max; i++) {
        sum += wait < most ? wait : most;
        if (wait < most)
            wait *= 2;
    }
    return sum;
}

static const inbox_config *slowest_reader(const config *all, const queue_config *queue)
{
    const inbox_config *slowest = NULL;
    for (size_t i = 0; i < all->inbox_count; i++) {
        const inbox_config *inbox = &all->inboxes[i];
        if (inbox->from && strcmp(inbox->from, queue->name) == 0 &&
            (!slowest || redelivery_ms(queue, inbox) > redelivery_ms(queue, slowest)))
            slowest = inbox;
    }
    return slowest;
}

/* Up to the next hour, minute or second, so that it is easily written. */
static uint64_t rounded_up(uint64_t ms)
{
    uint64_t step = ms > 3600000 ? 3600000 : ms > 60000 ? 60000 : 1000;
    return (ms / step + 1) * step;
}

static void report(const checking *c, const inbox_config *inbox, const queue_config *queue,
                   const inbox_config *slowest)
{
    const config_node *node = inboxes_find(&c->found->memory, c->all, inbox->name, "retention");
    uint64_t needed = redelivery_ms(queue, slowest);
    diagnostic *d = diagnostic_add(
        c->found, LEVEL_ERROR, "retention", node ? node->at : tree_name_place(inbox->at),
        region_printf(&c->found->memory, "%s.retention", tree_path(&c->found->memory, inbox->at)),
        "%s is shorter than the %s in which \"%s\" may redeliver",
        units_show_duration(inbox->options.retention_ms).text, units_show_duration(needed).text,
        queue->name);
    uint64_t last = queue->consumer.backoff_max_ms;
    diagnostic_help(c->found, d,
                    "%s %s %s: %u attempts, %s to %s apart; %s forgets the key before "
                    "the last one",
                    slowest->name, slowest == inbox ? "reads" : "also reads", queue->name,
                    slowest->options.attempts_max,
                    units_show_duration(queue->consumer.backoff_ms).text,
                    units_show_duration(last).text, inbox->name);
    diagnostic_help(c->found, d, "set retention to %s or more, or lower queues.%s.backoff_max",
                    units_show_duration(rounded_up(needed)).text, queue->name);
}

void check_retentions(const checking *c)
{
    for (size_t i = 0; i < c->all->inbox_count; i++) {
        const inbox_config *inbox = &c->all->inboxes[i];
        const queue_config *queue = config_queue(c->all, inbox->from);
        const inbox_config *slowest = queue ? slowest_reader(c->all, queue) : NULL;
        if (inbox->options.remember == SEMEL_REMEMBER_KEYS && slowest &&
            inbox->options.retention_ms < redelivery_ms(queue, slowest))
            report(c, inbox, queue, slowest);
    }
}
