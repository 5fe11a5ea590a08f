/* A store that is not built into semel: examples/own_store/filestore.c, opened by its driver table.
 *
 *     cc -o own_store own_store.c own_store/filestore.c $(pkg-config --cflags --libs semel)
 *     ./own_store            (twice: the second run finds the message handled) */
#include <semel/semel.h>
#include <semel/sys/store.h>
#include <stdio.h>
#include <stdlib.h>

extern const semel_store_driver filestore_driver;

static semel_error err;

static void check(semel_status status)
{
    if (status == SEMEL_OK)
        return;
    fprintf(stderr, "own_store: %s: %s\n", semel_status_name(status), err.text);
    exit(1);
}

static semel_status print_label(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *why)
{
    (void)unit, (void)context, (void)why;
    printf("printing the label of parcel %.*s\n", (int)message->body.len,
           (const char *)message->body.data);
    return SEMEL_OK;
}

int main(void)
{
    semel_store *store;
    semel_inbox *inbox;
    semel_outcome outcome;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_message message = {
        .size = sizeof message, .id = semel_str("parcel-1"), .body = semel_str("1")};

    check(semel_store_open_driver(&store, &filestore_driver, "labels.filestore", NULL, &err));
    check(semel_inbox_open(&inbox, store, "labels", &options, &err));
    for (int copy = 1; copy <= 2; copy++) {
        check(semel_inbox_receive(&outcome, inbox, &message, print_label, NULL, &err));
        printf("copy %d: %s\n", copy, semel_outcome_name(outcome));
    }
    semel_inbox_close(inbox);
    semel_store_close(store);
    return 0;
}
