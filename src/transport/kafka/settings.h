/* Settings of librdkafka: those that the transport needs for its promises, and those of the URL. */
#ifndef SEMEL_TRANSPORT_KAFKA_SETTINGS_H
#define SEMEL_TRANSPORT_KAFKA_SETTINGS_H

#include "transport/kafka/address.h"

/* 1 for a parameter of a URL that is a setting of librdkafka's: X.name. */
int kafka_setting_is_named(const char *parameter);

/* 1 if the value may be a password, a token or a private key. */
int kafka_setting_is_secret(const char *name);

/* The settings of a URL into address->settings, files read. SEMEL_EINVAL for a name that would
 * break a promise of the transport's, and for a file that cannot be read. */
semel_status kafka_settings_read(kafka_address *address, const url *parsed, semel_error *err);

#endif
