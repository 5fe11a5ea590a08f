/* One record, as librdkafka takes it. */
#include "transport/kafka/client.h"
#include "transport/kafka/envelope.h"

static rd_kafka_headers_t *make_headers(const kafka_record *record)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(record->header_count);
    for (size_t i = 0; headers && i < record->header_count; i++) {
        const semel_header *one = &record->headers[i];
        if (rd_kafka_header_add(headers, one->name, -1, one->value.data ? one->value.data : "",
                                (ssize_t)one->value.len) != RD_KAFKA_RESP_ERR_NO_ERROR) {
            rd_kafka_headers_destroy(headers);
            return NULL;
        }
    }
    return headers;
}

static rd_kafka_resp_err_t code_of(rd_kafka_error_t *error)
{
    rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
    if (error)
        rd_kafka_error_destroy(error);
    return code;
}

rd_kafka_resp_err_t kafka_client_produce(const kafka_client *client, const char *topic,
                                         const kafka_record *record, void *opaque)
{
    rd_kafka_headers_t *headers = make_headers(record);
    if (!headers)
        return RD_KAFKA_RESP_ERR__FAIL;
    /* librdkafka's members have no const; with F_COPY nothing is written there */
    union {
        const void *from;
        void *to;
    } key = {record->key.data}, body = {record->body.data};
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {key.to, record->key.len}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {body.to, record->body.len}},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = record->timestamp_ms},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = opaque}};
    rd_kafka_resp_err_t code =
        code_of(rd_kafka_produceva(client->handle, parts, sizeof parts / sizeof *parts));
    if (code) /* else they are the message's */
        rd_kafka_headers_destroy(headers);
    return code;
}
