#include "program/unit/handler_kit.h"

#include "support/process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 64 * 1024, WAIT_MS = 60000 };

static void open_inbox(handler_kit *kit)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = kit->kind->mode,
                                   .lease_ms = kit->lease_ms,
                                   .attempts_max = kit->attempts_max,
                                   .fingerprint = "none"};
    kit->config.options = options;
    OK(semel_inbox_open(&kit->inbox, kit->store, "mail.receipt", &options, &last_error));
}

void kit_open(handler_kit *kit, const handler_class *kind)
{
    kit->kind = kind;
    scratch_open(&kit->directory);
    scratch_sqlite(kit->url, &kit->directory, "kit.db");
    OK(semel_store_open(&kit->store, kit->url, NULL, &last_error));
    OK(semel_store_migrate(kit->store, &last_error));
    kit->all.directory = kit->directory.path;
    kit->config.name = "mail.receipt";
    kit->config.timeout_ms = WAIT_MS;
    open_inbox(kit);
}

void kit_close_handler(handler_kit *kit)
{
    if (kit->state)
        kit->kind->close(kit->state);
    kit->state = NULL;
}

void kit_close(handler_kit *kit)
{
    kit_close_handler(kit);
    semel_inbox_close(kit->inbox);
    semel_store_close(kit->store);
    scratch_close(&kit->directory);
}

void kit_script(handler_kit *kit, const char *script)
{
    kit_close_handler(kit);
    const char *words[] = {"sh", "-c", script};
    memcpy(kit->words, words, sizeof words);
    kit->config.exec.command = (config_list){kit->words, 3};
    kit->config.worker.command = kit->config.exec.command;
    OK(kit->kind->open(&kit->state, &kit->all, &kit->config, &last_error));
}

semel_outcome kit_receive_message(handler_kit *kit, const semel_message *message)
{
    semel_outcome outcome;
    check_forget();
    (void)semel_inbox_receive(&outcome, kit->inbox, message, kit->kind->handle, kit->state,
                              &last_error);
    return outcome;
}

semel_outcome kit_receive(handler_kit *kit, const char *id, const char *body)
{
    semel_message message = {.size = sizeof message,
                             .id = semel_str(id),
                             .type = "order.placed",
                             .body = semel_str(body)};
    return kit_receive_message(kit, &message);
}

const char *kit_file(handler_kit *kit, const char *name)
{
    static char text[FILE_MAX];
    char path[SCRATCH_PATH];
    FILE *file = fopen(scratch_file(path, &kit->directory, name), "r");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        (void)fclose(file);
    text[len] = 0;
    return text;
}

const char *kit_result(handler_kit *kit, const char *id)
{
    static char text[FILE_MAX];
    semel_marker *marker = NULL;
    semel_message message = {.size = sizeof message, .id = semel_str(id)};
    OK(semel_inbox_look(&marker, kit->inbox, &message, &last_error));
    int has_result = marker->has_result;
    assert_true(marker->result.len < sizeof text);
    if (marker->result.len)
        memcpy(text, marker->result.data, marker->result.len);
    text[marker->result.len] = 0;
    semel_marker_free(marker);
    return has_result ? text : NULL;
}

int kit_process_ends(handler_kit *kit, const char *file)
{
    int64_t until = process_now_ms() + WAIT_MS;
    while (process_now_ms() < until) {
        pid_t pid = (pid_t)strtol(kit_file(kit, file), NULL, 10);
        if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH)
            return 1;
        process_nap();
    }
    return 0;
}
