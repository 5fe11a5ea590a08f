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

rd_kafka_resp_err_t kafka_client_produce(const kafka_client *client, const char *topic,
                                         const kafka_record *record, void *opaque)
{
    rd_kafka_headers_t *headers = make_headers(record);
    if (!headers)
        return RD_KAFKA_RESP_ERR__FAIL;
    /* librdkafka's arguments have no const; with F_COPY nothing is written there */
    union {
        const void *from;
        void *to;
    } key = {record->key.data}, body = {record->body.data};
    rd_kafka_resp_err_t code = rd_kafka_producev(
        client->handle, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(key.to, record->key.len), RD_KAFKA_V_VALUE(body.to, record->body.len),
        RD_KAFKA_V_TIMESTAMP(record->timestamp_ms), RD_KAFKA_V_HEADERS(headers),
        RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_END);
    if (code) /* else it is the message's */
        rd_kafka_headers_destroy(headers);
    return code;
}
