/* What goes wrong between a process and the database. */
#include "support/keyed/sim.h"

#include <string.h>

int64_t sim_database_now(void *context, void *client)
{
    const sim *s = context;
    const sim_process *p = s->running;
    (void)client;
    if (!p)
        return s->now_ms;
    if (s->options.mistake == SIM_WALL_CLOCK)
        return s->now_ms + p->wall_ms + p->apart_ms;
    return s->now_ms + p->off_ms + p->apart_ms;
}

static int begins_with(semel_bytes space, char kind)
{
    return space.len && *(const char *)space.data == kind;
}

/* --- planted mistakes ------------------------------------------------------------------------- */

static void leave_out(keyed_memory_event *event, size_t which)
{
    memmove(&event->changes[which], &event->changes[which + 1],
            (event->count - which - 1) * sizeof *event->changes);
    event->count--;
}

/* Leaves out the changes of one kind of space if one of another space is there. */
static void without(keyed_memory_event *event, char kind, semel_keyed_kind how, char beside)
{
    int there = 0;
    for (size_t i = 0; i < event->count; i++)
        there |= beside == '*' ? event->changes[i].kind == SEMEL_KEYED_FOREIGN
                               : begins_with(event->changes[i].record.space, beside);
    for (size_t i = event->count; there && i--;)
        if (event->changes[i].kind == how && begins_with(event->changes[i].record.space, kind))
            leave_out(event, i);
}

static int has_foreign(const keyed_memory_event *event)
{
    for (size_t i = 0; i < event->count; i++)
        if (event->changes[i].kind == SEMEL_KEYED_FOREIGN)
            return 1;
    return 0;
}

static const semel_keyed_change *marker_of(const keyed_memory_event *event)
{
    for (size_t i = 0; i < event->count; i++)
        if (event->changes[i].kind != SEMEL_KEYED_FOREIGN &&
            begins_with(event->changes[i].record.space, 'm'))
            return &event->changes[i];
    return NULL;
}

/* The repetition of a unit whose answer was lost, or a write of its marker alone. */
static int is_fence(const sim_process *p, const keyed_memory_event *event)
{
    const semel_keyed_change *marker = marker_of(event);
    return marker && p->lost_place &&
           sim_place(marker->record.space, marker->record.key) == p->lost_place;
}

static int is_hold(const keyed_memory_event *event)
{
    const semel_keyed_change *marker = marker_of(event);
    return marker && !has_foreign(event) && marker->kind == SEMEL_KEYED_WRITE &&
           marker->record.guard && marker->record.until_ms;
}

/* 1: the call is to be pretended. */
static int plant(sim_process *p, keyed_memory_event *event)
{
    switch (p->world->options.mistake) {
    case SIM_NO_FENCE:
        return is_fence(p, event);
    case SIM_HOLD_NOT_WRITTEN:
        return p->world->mode == SEMEL_TRANSACTION && is_hold(event);
    case SIM_FORGOTTEN_NOT_RAISED:
        if (marker_of(event) && marker_of(event)->kind == SEMEL_KEYED_REMOVE)
            without(event, 't', SEMEL_KEYED_WRITE, 'm');
        return 0;
    case SIM_READY_NOT_WRITTEN:
        if (has_foreign(event))
            without(event, 'r', SEMEL_KEYED_WRITE, 'o');
        return 0;
    case SIM_MESSAGE_LOST:
        for (char *kinds = (char[]){"orwg"}; *kinds; kinds++)
            without(event, *kinds, SEMEL_KEYED_WRITE, '*');
        return 0;
    case SIM_MARKER_LOST:
        without(event, 'm', SEMEL_KEYED_WRITE, '*');
        return 0;
    case SIM_FORGETFUL:
        for (size_t i = 0; i < event->count; i++)
            if (event->changes[i].expires_ms)
                event->changes[i].expires_ms = p->world->now_ms + 1000;
        return 0;
    default:
        return 0;
    }
}

static void plant_late(const sim_process *p, keyed_memory_event *event, keyed_memory_fate fate)
{
    if (p->world->options.mistake == SIM_GROUP_NOT_EXPECTED)
        for (size_t i = 0; i < event->count; i++)
            if (begins_with(event->changes[i].record.space, 'g'))
                event->changes[i].expect = (semel_keyed_expect)KEYED_MEMORY_EXPECT_NOTHING;
    if (p->world->options.mistake == SIM_TORN && fate == KEYED_MEMORY_APPLIED && event->count > 1)
        event->count = 1;
}

/* --- faults ----------------------------------------------------------------------------------- */

static void die(sim_process *p, const char *when)
{
    if (!p->lives)
        return;
    p->lives--;
    p->world->result->crashes++;
    sim_note(p->world, "dies %s", when);
    p->dead = 1;
}

/* Mostly short; sometimes longer than a lease, sometimes longer than a hold. */
static void pause_here(sim_process *p)
{
    static const int64_t spans[] = {1, 7, 50, 400, 3000, 12000, 40000, 130000};
    sim *s = p->world;
    int64_t span = spans[sim_below(s, sizeof spans / sizeof *spans)];
    sim_note(s, "stands still for %lld ms", (long long)span);
    /* Somebody sets its clock; a stale message is known only if clocks differ by less than an
     * inbox allows for (clock_margin_ms). */
    if (sim_chance(s, 300))
        p->wall_ms = s->retention_ms ? (int64_t)sim_below(s, 800) - 400
                                     : (int64_t)sim_below(s, 7200000) - 3600000;
    sim_sleep(p, span);
}

static keyed_memory_fate misfortune(sim_process *p, const keyed_memory_event *event)
{
    static const keyed_memory_fate of_apply[] = {
        KEYED_MEMORY_UNAVAILABLE, KEYED_MEMORY_BUSY, KEYED_MEMORY_GIVES_UP,
        KEYED_MEMORY_SILENT,      KEYED_MEMORY_LOST, KEYED_MEMORY_APPLIED,
        KEYED_MEMORY_APPLIED,     KEYED_MEMORY_LATE, KEYED_MEMORY_LATE};
    sim *s = p->world;
    s->result->faults++;
    unsigned kind = sim_below(s, 12);
    if (kind == 0)
        die(p, "before a call");
    if (kind == 0)
        return KEYED_MEMORY_UNAVAILABLE;
    if (kind < 3)
        pause_here(p);
    if (kind < 3)
        return KEYED_MEMORY_DONE;
    if (event->call != KEYED_MEMORY_APPLY)
        return kind < 6 ? KEYED_MEMORY_UNAVAILABLE : KEYED_MEMORY_BUSY;
    return of_apply[kind - 3];
}

/* --- the hook --------------------------------------------------------------------------------- */

static const char *call_name(const keyed_memory_event *event)
{
    static const char *const names[] = {"?", "apply", "get", "scan", "count"};
    return names[event->call];
}

static const char *fate_name(keyed_memory_fate fate)
{
    static const char *const names[] = {"",
                                        ": unavailable",
                                        ": busy",
                                        ": gives up",
                                        ": refuses silently",
                                        ": lost",
                                        ": applied, answer lost",
                                        ": lost, to arrive late",
                                        ": pretended"};
    return names[fate];
}

static void trace_changes(sim *s, const keyed_memory_event *event)
{
    static const char *const kinds[] = {"?", "write", "remove", "check", "foreign"};
    static const char *const expects[] = {"?", "absent", "version", "guard", "anything"};
    for (size_t i = 0; s->options.trace && i < event->count; i++) {
        const semel_keyed_change *one = &event->changes[i];
        if (one->kind == SEMEL_KEYED_FOREIGN) {
            (void)fprintf(s->options.trace, "                 foreign %.*s\n",
                          (int)one->values[0].bytes.len, (const char *)one->values[0].bytes.data);
            continue;
        }
        (void)fprintf(s->options.trace, "                 %s %.*s ", kinds[one->kind],
                      (int)one->record.space.len, (const char *)one->record.space.data);
        for (size_t j = 0; j < one->record.key.len; j++) {
            unsigned char byte = ((const unsigned char *)one->record.key.data)[j];
            (void)fprintf(s->options.trace, byte > 32 && byte < 127 ? "%c" : "%02x.", byte);
        }
        (void)fprintf(s->options.trace, " if %s %llx/%lld -> guard %llx until %lld\n",
                      expects[one->expect], (unsigned long long)one->expected_guard,
                      (long long)one->live_at_ms, (unsigned long long)one->record.guard,
                      (long long)one->record.until_ms);
    }
}

keyed_memory_fate sim_before(void *context, keyed_memory_event *event)
{
    sim *s = context;
    sim_process *p = s->running;
    keyed_memory_fate fate = KEYED_MEMORY_DONE;
    if (!p || p->dead)
        return p ? KEYED_MEMORY_UNAVAILABLE : fate;
    s->result->calls++;
    if (event->call == KEYED_MEMORY_APPLY ? sim_chance(s, 500) : sim_chance(s, 250))
        sim_yield(p);
    if (!s->calm && sim_chance(s, s->fault_permille))
        fate = misfortune(p, event);
    if (p->dead)
        return fate;
    if (event->call == KEYED_MEMORY_APPLY) {
        if (plant(p, event))
            fate = KEYED_MEMORY_PRETENDED;
        plant_late(p, event, fate);
    }
    sim_note(s, "%s %.*s%s", call_name(event), (int)event->space.len,
             event->space.data ? (const char *)event->space.data : "", fate_name(fate));
    if (event->call == KEYED_MEMORY_APPLY)
        trace_changes(s, event);
    return fate;
}

void sim_after(void *context, const keyed_memory_event *event, semel_status status)
{
    sim *s = context;
    sim_process *p = s->running;
    if (!p || p->dead)
        return;
    if (status)
        sim_note(s, "-> %s", semel_status_name(status));
    if (event->call == KEYED_MEMORY_APPLY) {
        const semel_keyed_change *marker = marker_of(event);
        p->lost_place = status == SEMEL_EUNKNOWN && marker && event->count > 1
                            ? sim_place(marker->record.space, marker->record.key)
                        : status == SEMEL_EUNKNOWN ? p->lost_place
                                                   : 0;
    }
    if (s->calm || !sim_chance(s, s->fault_permille / 2))
        return;
    if (sim_chance(s, 400))
        die(p, "after a call");
    else
        pause_here(p);
}
