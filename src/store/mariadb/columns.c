/* A message's columns, in the order of MESSAGE_COLUMNS in statement.c.
 *
 * A statement and its values are one text, and a text is at most max_allowed_packet long; in
 * hexadecimal, a body takes twice its length. One that does not fit is sent apart, in pieces, as a
 * parameter of a prepared statement. */
#include "base/message.h"
#include "store/mariadb/mariadb.h"

#include <string.h>

enum { PIECE = 1 << 20 };

static size_t text_size(const char *text)
{
    return text ? 2 * strlen(text) : 0;
}

size_t maria_message_size(const semel_message *message)
{
    enum { OTHER_TEXT = 512 };
    return OTHER_TEXT + text_size(message->group) + text_size(message->source) +
           text_size(message->type) + text_size(message->topic) + text_size(message->content_type) +
           2 * (message->id.len + message->correlation_id.len + headers_size(message) +
                message->body.len);
}

void maria_message_write_head(maria_query *q, const semel_message *message)
{
    maria_text(q, sql_text_or_null(message->group));
    maria_bytes(q, message->id);
    maria_text(q, message->source);
    maria_text(q, message->type);
    maria_text(q, message->topic);
    maria_bytes(q, message->correlation_id);
    maria_text(q, message->content_type);
    maria_int_or_null(q, message->time_ms);
}

semel_status maria_message_write(maria_query *q, mem_arena *arena, const semel_message *message,
                                 semel_error *err)
{
    semel_bytes headers = {NULL, 0};
    maria_message_write_head(q, message);
    semel_status status = sql_headers_pack(&headers, arena, message, err);
    maria_bytes(q, headers);
    maria_bytes(q, message->body);
    return status;
}

/* Borrowed from the row, but for the headers, which are in the arena. */
semel_status maria_message_read(semel_message *out, mem_arena *arena, const maria_row *r,
                                unsigned first, semel_error *err)
{
    *out = (semel_message){.size = sizeof *out,
                           .group = maria_column_text(r, first + MESSAGE_GROUP),
                           .id = maria_column_bytes(r, first + MESSAGE_ID),
                           .source = maria_column_text(r, first + MESSAGE_SOURCE),
                           .type = maria_column_text(r, first + MESSAGE_TYPE),
                           .topic = maria_column_text(r, first + MESSAGE_TOPIC),
                           .correlation_id = maria_column_bytes(r, first + MESSAGE_CORRELATION_ID),
                           .content_type = maria_column_text(r, first + MESSAGE_CONTENT_TYPE),
                           .time_ms = maria_column_int(r, first + MESSAGE_TIME),
                           .body = maria_column_bytes(r, first + MESSAGE_BODY)};
    return headers_read(&out->headers, &out->header_count, arena,
                        maria_column_bytes(r, first + MESSAGE_HEADERS), err);
}

/* --- large ones ------------------------------------------------------------------------------- */

static void bind_piece(MYSQL_BIND *to, semel_bytes value, unsigned long *len, my_bool *is_null)
{
    *len = (unsigned long)value.len;
    *is_null = !value.data;
    *to = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONG_BLOB,
                       .buffer = (void *)(uintptr_t)value.data,
                       .buffer_length = *len,
                       .length = len,
                       .is_null = is_null};
}

static int send_pieces(MYSQL_STMT *stmt, unsigned parameter, semel_bytes value)
{
    const char *from = value.data;
    for (size_t at = 0; at < value.len; at += PIECE) {
        size_t len = value.len - at < PIECE ? value.len - at : PIECE;
        if (mysql_stmt_send_long_data(stmt, parameter, from + at, (unsigned long)len))
            return 1;
    }
    return 0;
}

static int execute_pieces(MYSQL_STMT *stmt, const char *text, size_t len,
                          const semel_bytes values[2])
{
    MYSQL_BIND binds[2];
    unsigned long lengths[2];
    my_bool nulls[2];
    for (int i = 0; i < 2; i++)
        bind_piece(&binds[i], values[i], &lengths[i], &nulls[i]);
    return mysql_stmt_prepare(stmt, text, (unsigned long)len) ||
           mysql_stmt_bind_param(stmt, binds) || send_pieces(stmt, 0, values[0]) ||
           send_pieces(stmt, 1, values[1]) || mysql_stmt_execute(stmt);
}

static semel_status run_statement(maria_connection *on, const semel_bytes values[2],
                                  const char *doing, semel_error *err)
{
    MYSQL_STMT *stmt = mysql_stmt_init(on->my);
    if (!stmt)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a statement");
    semel_status status = SEMEL_OK;
    maria_library_call call;
    maria_enter(&call, on);
    if (execute_pieces(stmt, on->out.text.bytes, on->out.text.len, values))
        status = maria_fail_statement(on, stmt, doing, err);
    (void)mysql_stmt_close(stmt);
    maria_leave(&call);
    return status;
}

static semel_status check_length(const maria_connection *on, semel_bytes value, semel_error *err)
{
    if (value.len <= on->packet_max)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELIMIT,
                      "mariadb: a message of %zu bytes; the server's max_allowed_packet is %zu: "
                      "raise it",
                      value.len, on->packet_max);
}

semel_status maria_unit_execute_large(mariadb_unit *unit, const semel_message *message,
                                      const char *doing, semel_error *err)
{
    maria_connection *on = unit->on;
    semel_bytes values[2] = {{NULL, 0}, message->body};
    semel_status status = sql_headers_pack(&values[0], &on->scratch, message, err);
    for (int i = 0; !status && i < 2; i++)
        status = check_length(on, values[i], err);
    if (!status && on->out.failed)
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory for statements");
    on->fresh = 0; /* from here on a new session would not know of it */
    if (!status)
        status = run_statement(on, values, doing, err);
    maria_script_clear(&on->out);
    unit->sent = 1;
    return status;
}
