/* NATS': there is a host and a port, names and subjects are such that the server takes them for one
 * word, and what needs a stream has one. */
#include "property.h"
#include "transport/nats/address.h"
#include "transport/nats/subject.h"
#include "url_parts.h"

semel_status check_nats_address(const char *url, int secret, semel_error *err)
{
    static jet_address a;
    semel_status status = jet_address_read(&a, url, err);
    if (status)
        return status;
    HOLDS(a.host[0] && a.name[0] && a.port >= 1 && a.port <= 65535);
    HOLDS(a.heartbeat_s >= 1 && a.heartbeat_s <= 3600 && a.connect_ms >= 1);
    HOLDS(!a.stream[0] || jet_name_is_valid(a.stream));
    HOLDS(!a.consumer[0] || (a.stream[0] && jet_name_is_valid(a.consumer)));
    HOLDS(!a.subject[0] || jet_subject_is_plain(a.subject));
    HOLDS(!a.dead[0] || (a.consumer[0] && jet_subject_is_plain(a.dead)));
    HOLDS(!a.filter[0] || jet_subject_is_pattern(a.filter));
    HOLDS(a.max_deliver >= -1 && a.max_ack_pending >= -1);
    HOLDS(keeps(secret, a.user) && keeps(secret, a.host) && keeps(secret, a.stream));
    HOLDS(keeps(secret, a.consumer) && keeps(secret, a.subject) && keeps(secret, a.name));
    return SEMEL_OK;
}
