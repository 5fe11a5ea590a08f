#include "pipeline_kit.h"

#include <stdlib.h>

int kit_setup(void **state)
{
    pipeline_case *c = calloc(1, sizeof *c);
    store_place_open(&c->place, PLACE_SQLITE);
    effect_build(&c->place, "effect");
    deadline_begin();
    *state = c;
    return 0;
}

int kit_teardown(void **state)
{
    pipeline_case *c = *state;
    deadline_end();
    store_place_close(&c->place);
    free(c);
    return 0;
}

void kit_open(pipeline_case *c, const semel_pipeline_spec *spec)
{
    OK(semel_pipeline_open(&c->pipeline, spec, &last_error));
}

void kit_close(pipeline_case *c)
{
    semel_pipeline_close(c->pipeline);
    c->pipeline = NULL;
}

void kit_end(pipeline_case *c)
{
    semel_pipeline_stop(c->pipeline);
    OK(semel_pipeline_wait(c->pipeline, &last_error));
}

semel_status kit_write(semel_unit *unit, const char *what, const semel_message *message,
                       semel_error *err)
{
    char item[KIT_TEXT];
    (void)snprintf(item, sizeof item, "%s:%.*s", what, (int)message->id.len,
                   (const char *)message->id.data);
    semel_value value = semel_text(item);
    return semel_unit_queue(unit, "INSERT INTO effect (item) VALUES (?)", &value, 1, err);
}

semel_status kit_effect(semel_unit *unit, const semel_message *message, void *context,
                        semel_error *err)
{
    return kit_write(unit, context, message, err);
}

void kit_send(semel_pipeline *pipeline, const char *outbox, const char *type, const char *name,
              unsigned number)
{
    char id[KIT_TEXT];
    (void)snprintf(id, sizeof id, "%s-%u", name, number);
    semel_message message = {.size = sizeof message, .id = semel_str(id), .type = type};
    OK(semel_outbox_send(semel_pipeline_find_outbox(pipeline, outbox), &message, &last_error));
}

int64_t kit_effects(const pipeline_case *c)
{
    return effect_count(&c->place, "effect").all;
}

int64_t kit_times(const pipeline_case *c, const char *of)
{
    return effect_times(&c->place, "effect", of);
}

static void nap_a_while(void)
{
    for (int i = 0; i < 20; i++)
        process_nap();
}

void kit_wait_effects(const pipeline_case *c, int64_t count)
{
    int64_t deadline = process_now_ms() + KIT_LATE_MS;
    while (kit_effects(c) < count) {
        if (process_now_ms() > deadline)
            fail_msg("%lld effects, and not %lld", (long long)kit_effects(c), (long long)count);
        nap_a_while();
    }
}

void kit_wait_flag(atomic_int *flag, int value)
{
    int64_t deadline = process_now_ms() + KIT_LATE_MS;
    while (atomic_load(flag) < value) {
        if (process_now_ms() > deadline)
            fail_msg("%d, and not %d", atomic_load(flag), value);
        process_nap();
    }
}
