/* Kafka's: there are servers, each with a port; a group has a topic; and what is secret is in none
 * of the parts that may be shown. Files are not read: such inputs are passed over. */
#include "property.h"
#include "transport/kafka/address.h"
#include "url_parts.h"

semel_status check_kafka_address(const char *text, int secret, semel_error *err)
{
    static kafka_address a;
    if (strstr(text, "file"))
        return SEMEL_OK;
    semel_status status = kafka_address_read(&a, text, err);
    if (status)
        return status;
    HOLDS(a.servers[0] && strchr(a.servers, ':') && a.name[0]);
    HOLDS(!a.topic[0] || kafka_topic_is_valid(a.topic));
    HOLDS(!a.group[0] || a.topic[0]);
    HOLDS(!a.dead[0] || (a.group[0] && kafka_topic_is_valid(a.dead)));
    HOLDS(!a.user[0] == !a.password[0]);
    HOLDS(a.prefetch >= 1 && a.ahead >= a.prefetch && a.connect_ms >= 1);
    HOLDS(a.setting_count <= URL_PARAMETERS_MAX);
    HOLDS(keeps(secret, a.servers) && keeps(secret, a.user) && keeps(secret, a.topic));
    HOLDS(keeps(secret, a.group) && keeps(secret, a.dead) && keeps(secret, a.name));
    kafka_address_free(&a);
    return SEMEL_OK;
}
