/* The values in an AMQP table, as text and as numbers. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_ENVELOPE_VALUE_H
#define SEMEL_TRANSPORT_RABBITMQ_ENVELOPE_VALUE_H

#include <amqp.h>
#include <stddef.h>
#include <stdint.h>

/* 1 if it is an integer of any width; one beyond INT64_MAX is INT64_MAX. */
int rabbit_value_integer(int64_t *out, const amqp_field_value_t *value);

/* 1 if it is text or bytes, which *out then names. */
int rabbit_value_bytes(amqp_bytes_t *out, const amqp_field_value_t *value);

enum { RABBIT_NUMBER_ROOM = 288 };

/* A number, time, true or false as text, whatever the locale; its length, or 0 for anything
 * else. */
size_t rabbit_value_print(char out[RABBIT_NUMBER_ROOM], const amqp_field_value_t *value);

/* The value of that key, or NULL. */
const amqp_field_value_t *rabbit_table_find(const amqp_table_t *table, const char *key);

/* 1 if those are the same bytes. */
int rabbit_bytes_are(amqp_bytes_t bytes, const char *text);

#endif
