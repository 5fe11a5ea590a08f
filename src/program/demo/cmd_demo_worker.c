/* semel demo-worker SHOP DATABASE: what `semel demo` starts, and kills. Not for people. */
#include "program/cli.h"
#include "program/demo/demo_worker.h"

#include <string.h>
#include <time.h>

enum { RECEIPT_US = 500, NETWORK_US = 500 };

int shop_ready(void)
{
    frame ready = {.kind = FRAME_READY};
    return wire_send(DELIVERIES_FD, &ready);
}

int shop_acknowledge(const frame *delivery, int duplicate)
{
    frame ack = {.kind = FRAME_ACK, .tag = delivery->tag, .duplicate = duplicate != 0};
    return wire_send(DELIVERIES_FD, &ack);
}

static void spend_us(long us)
{
    struct timespec time = {0, us * 1000};
    (void)nanosleep(&time, NULL);
}

void shop_write_receipt(void)
{
    spend_us(RECEIPT_US);
}

void shop_cross_network(void)
{
    spend_us(NETWORK_US);
}

int shop_send_event(uint32_t tag, const char *id, size_t id_len, const char *body, size_t body_len)
{
    frame event = {.kind = FRAME_EVENT, .tag = tag};
    if (wire_text(event.id, sizeof event.id, id, id_len) ||
        wire_text(event.body, sizeof event.body, body, body_len))
        return -1;
    return wire_send(EVENTS_FD, &event);
}

frame_result shop_await_confirm(uint32_t *tag, int wait_ms)
{
    frame answer;
    frame_result result = wire_receive(&answer, EVENTS_FD, wait_ms);
    if (result == FRAME_GOT && answer.kind != FRAME_CONFIRM)
        return FRAME_END;
    if (result == FRAME_GOT)
        *tag = answer.tag;
    return result;
}

int cmd_demo_worker(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "naive") == 0)
        return shop_naive(argv[2]);
    if (argc == 3 && strcmp(argv[1], "semel") == 0)
        return shop_semel(argv[2]);
    return cli_usage("demo", "demo-worker is started by the demo itself");
}
