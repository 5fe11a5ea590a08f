/* Work outside of the store's transaction: a call to another company's service.
 *
 * The inbox is in claim mode: no transaction is open while the handler talks to the service.
 * Across a crash the call may be made twice, so the handler passes a key on that is the same for
 * every attempt, and the service can tell. What it answered is stored with the key and given
 * back to every later copy. */
#include <semel/semel.h>
#include <stdio.h>
#include <string.h>

/* Stands for an HTTP request with an Idempotency-Key header. */
static void call_payment_service(const char *key, char answer[32])
{
    printf("POST /charges, Idempotency-Key: %s\n", key);
    strcpy(answer, "charge ch_42");
}

static semel_status charge(semel_unit *unit, const semel_message *order, void *context,
                           semel_error *err)
{
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE], answer[32];
    (void)order, (void)context;
    semel_status status = semel_unit_idempotency_key(key, unit, err);
    if (status)
        return status;
    call_payment_service(key, answer);
    return semel_unit_set_result(unit, answer, strlen(answer), err);
}

static int receive(semel_inbox *inbox, const semel_message *order)
{
    semel_outcome outcome;
    semel_result *result;
    semel_error err;
    if (semel_inbox_receive_result(&outcome, &result, inbox, order, charge, NULL, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    semel_bytes answer = semel_result_bytes(result);
    printf("%s: %.*s\n", semel_outcome_name(outcome), (int)answer.len, (const char *)answer.data);
    int wrong = answer.len != strlen("charge ch_42");
    semel_result_free(result);
    return wrong;
}

int main(void)
{
    semel_store *store;
    semel_inbox *inbox;
    semel_error err;
    semel_inbox_options options = {.size = sizeof options,
                                   .key = "type+json:/payment/id",
                                   .mode = SEMEL_CLAIM,
                                   .on_duplicate = SEMEL_DUPLICATE_REPLAY,
                                   .lease_ms = 10000};
    semel_message order = {.size = sizeof order,
                           .type = "order",
                           .body = semel_str("{\"payment\": {\"id\": 7, \"cents\": 990}}")};

    if (semel_store_open(&store, "sqlite:claim.db", NULL, &err) ||
        semel_store_migrate(store, &err) ||
        semel_inbox_open(&inbox, store, "payments", &options, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    int wrong = receive(inbox, &order) || receive(inbox, &order);
    semel_inbox_close(inbox);
    semel_store_close(store);
    return wrong;
}
