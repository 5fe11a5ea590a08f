/* Transports: opening, forwarding, grading.
 *
 * A child of the process that opened a transport has its sockets, and would take the answers that
 * the parent waits for; it has its locks, as they were at that moment, and none of the threads that
 * would open them. So nothing is forwarded there, whatever the driver. */
#include "core/transport.h"

#include "base/mem.h"
#include "core/inbox.h"

#include <unistd.h>

#define FORKED "this transport was opened before fork(); open one in the child"

/* Every member is there, so that no caller has to ask. */
static semel_status check_driver(const semel_transport_driver *d, semel_error *err)
{
    int in_store = !d->store_of == !d->settle_in && !d->store_of == !d->settled;
    if (d->version == SEMEL_TRANSPORT_DRIVER_VERSION && d->scheme && d->transport_size && d->open &&
        d->close && d->durability && d->publish && d->receive && d->settle && in_store)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "the driver table of the transport %s: is incomplete, or of another version",
                      d->scheme ? d->scheme : "?");
}

semel_status semel_transport_open_driver(semel_transport **out,
                                         const semel_transport_driver *driver, const void *argument,
                                         const semel_transport_options *options, semel_error *err)
{
    semel_transport_options chosen;
    semel_status status =
        options_read(&chosen, sizeof chosen, options, "semel_transport_options", err);
    if (!status)
        status = check_driver(driver, err);
    if (status)
        return status;
    semel_transport *transport = mem_alloc(sizeof *transport);
    if (transport)
        transport->state = mem_alloc(driver->transport_size);
    if (!transport || !transport->state) {
        mem_free(transport);
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a transport");
    }
    transport->driver = driver;
    transport->pid = getpid();
    seam_complete(&transport->seam, chosen.seam);
    transport->settings.seam = &transport->seam;
    status = driver->open(transport->state, argument, &transport->settings, err);
    if (status) {
        mem_free(transport->state);
        mem_free(transport);
        return status;
    }
    *out = transport;
    return SEMEL_OK;
}

semel_status semel_transport_open(semel_transport **out, const char *url,
                                  const semel_transport_options *options, semel_error *err)
{
    const semel_transport_driver *driver;
    semel_status status = transport_driver_find(&driver, url, err);
    return status ? status : semel_transport_open_driver(out, driver, url, options, err);
}

semel_status semel_transport_check_url(const char *url, int receives, semel_error *err)
{
    const semel_transport_driver *driver;
    semel_status status = transport_driver_find(&driver, url, err);
    return status || !driver->check_url ? status : driver->check_url(url, receives, err);
}

int transport_is_ours(const semel_transport *transport)
{
    return transport->pid == getpid();
}

static semel_status check_process(const semel_transport *transport, semel_error *err)
{
    return transport_is_ours(transport) ? SEMEL_OK : semel_fail(err, SEMEL_EMISUSE, FORKED);
}

/* In a child only the memory goes, and what the driver has in it stays behind until the child
 * ends. */
void semel_transport_close(semel_transport *transport)
{
    if (!transport)
        return;
    if (transport_is_ours(transport))
        transport->driver->close(transport->state);
    mem_free(transport->state);
    mem_free(transport);
}

const semel_transport_driver *semel_transport_driver_of(const semel_transport *transport)
{
    return transport->driver;
}

void *semel_transport_state(const semel_transport *transport, const semel_transport_driver *driver)
{
    return transport->driver == driver ? transport->state : NULL;
}

semel_status transport_publish(semel_publish_result results[], semel_transport *transport,
                               const semel_message *const messages[], size_t count,
                               uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                               semel_error *err)
{
    const semel_transport_driver *driver = transport->driver;
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    semel_status status = check_process(transport, err);
    if (!status && meanwhile && driver->publish_while)
        return driver->publish_while(transport->state, results, messages, count, wait_ms, meanwhile,
                                     context, err);
    if (!status)
        status = driver->publish(transport->state, results, messages, count, wait_ms, err);
    if (meanwhile)
        meanwhile(context);
    return status;
}

semel_status semel_transport_publish(semel_publish_result results[], semel_transport *transport,
                                     const semel_message *const messages[], size_t count,
                                     uint32_t wait_ms, semel_error *err)
{
    return transport_publish(results, transport, messages, count, wait_ms, NULL, NULL, err);
}

semel_status semel_transport_receive(semel_transport *transport, semel_delivery deliveries[],
                                     size_t max, size_t *count, uint32_t wait_ms, semel_error *err)
{
    semel_status status = check_process(transport, err);
    return status
               ? status
               : transport->driver->receive(transport->state, deliveries, max, count, wait_ms, err);
}

semel_status semel_transport_settle(semel_transport *transport,
                                    const semel_delivery_settlement settles[], size_t count,
                                    semel_error *err)
{
    semel_status status = check_process(transport, err);
    return status ? status : transport->driver->settle(transport->state, settles, count, err);
}

semel_status transport_extend(const semel_transport *transport, const uint64_t tags[], size_t count,
                              uint32_t *hold_ms, semel_error *err)
{
    semel_status status = check_process(transport, err);
    return status ? status : transport->driver->extend(transport->state, tags, count, hold_ms, err);
}

void transport_give_back(const semel_transport *transport)
{
    if (transport->driver->give_back && transport_is_ours(transport))
        transport->driver->give_back(transport->state);
}

int transport_is_in(const semel_transport *transport, const semel_store *store)
{
    return transport->driver->store_of && transport_is_ours(transport) &&
           transport->driver->store_of(transport->state) == store;
}

int transport_keeps_rejected(const semel_transport *transport)
{
    return transport->driver->keeps_rejected && transport_is_ours(transport) &&
           transport->driver->keeps_rejected(transport->state);
}

const char *semel_transport_warnings(const semel_transport *transport)
{
    if (!transport_is_ours(transport))
        return FORKED;
    return transport->driver->warnings ? transport->driver->warnings(transport->state) : "";
}

semel_status semel_transport_depth(uint64_t *ready, semel_transport *transport, semel_error *err)
{
    const semel_transport_driver *driver = transport->driver;
    semel_status status = check_process(transport, err);
    if (!status && !driver->depth)
        status =
            semel_fail(err, SEMEL_EUNSUPPORTED,
                       "%s: this transport cannot tell how many messages wait", driver->scheme);
    return status ? status : driver->depth(transport->state, ready, err);
}

/* --- grades ----------------------------------------------------------------------------------- */

/* An acknowledgement that survives more than the store's commit can lose the effect: the broker
 * forgets a message that the store may forget too. A broker that loses more than the store loses
 * messages of its own, but what the store has is right, so it does not lower the grade of the
 * effects. */
static semel_grade grade_of(semel_durability store, semel_durability broker)
{
    if (store == SEMEL_DURABLE_POWER)
        return SEMEL_GRADE_EXACTLY_ONCE_EFFECTS;
    if (store == SEMEL_DURABLE_PROCESS)
        return broker == SEMEL_DURABLE_NOT ? SEMEL_GRADE_EXACTLY_ONCE_EFFECTS
                                           : SEMEL_GRADE_EXCEPT_POWER_LOSS;
    return SEMEL_GRADE_AT_LEAST_ONCE;
}

semel_grade semel_store_grade(const semel_store *store, semel_mode mode,
                              const semel_transport *transport)
{
    semel_durability kept = store->driver->durability(store->state);
    semel_durability acked =
        transport ? transport->driver->durability(transport->state) : SEMEL_DURABLE_POWER;
    if (kept == SEMEL_DURABLE_NOT)
        return SEMEL_GRADE_AT_LEAST_ONCE;
    if (mode == SEMEL_CLAIM || !(store->driver->abilities & SEMEL_STORE_TRANSACTIONS))
        return SEMEL_GRADE_EFFECTIVELY_ONCE;
    return grade_of(kept, acked);
}

semel_grade semel_inbox_grade(const semel_inbox *inbox, const semel_transport *transport)
{
    return semel_store_grade(inbox->store, inbox->options.mode, transport);
}

const char *semel_grade_name(semel_grade grade)
{
    switch (grade) {
    case SEMEL_GRADE_AT_LEAST_ONCE:
        return "at-least-once";
    case SEMEL_GRADE_EFFECTIVELY_ONCE:
        return "effectively once";
    case SEMEL_GRADE_EXCEPT_POWER_LOSS:
        return "exactly-once effects except power loss";
    case SEMEL_GRADE_EXACTLY_ONCE_EFFECTS:
        return "exactly-once effects";
    }
    return "unknown";
}
