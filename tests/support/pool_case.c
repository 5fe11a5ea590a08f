/* See pool_case.h. */
#include "support/pool_case.h"

#include "base/wait.h"
#include "support/check.h"
#include "support/deadline.h"

#include <stdlib.h>
#include <string.h>

/* --- the server ------------------------------------------------------------------------------------------- */

void fake_start(fake_server *s)
{
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    assert_int_equal(wait_condition_init(&s->changed), 0);
}

void fake_answer(fake_server *s, semel_status answer)
{
    pthread_mutex_lock(&s->lock);
    s->answer = answer;
    pthread_mutex_unlock(&s->lock);
}

void fake_hold(fake_server *s, int holding)
{
    pthread_mutex_lock(&s->lock);
    s->holding = holding;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

unsigned fake_tries(fake_server *s)
{
    pthread_mutex_lock(&s->lock);
    unsigned tries = s->tries;
    pthread_mutex_unlock(&s->lock);
    return tries;
}

void fake_await_tries(fake_server *s, unsigned tries)
{
    while (fake_tries(s) < tries)
        wait_nap_us(200);
}

/* With the lock: counts, and stays for as long as it is told to. */
static void stand_at_the_door(fake_server *s)
{
    if (s->tries < TRIES_KEPT)
        s->tried_at[s->tries] = wait_clock_ms();
    s->tries++;
    if (++s->at_the_door > s->at_the_door_max)
        s->at_the_door_max = s->at_the_door;
    pthread_cond_broadcast(&s->changed);
    while (s->holding || s->tries < s->gather)
        pthread_cond_wait(&s->changed, &s->lock);
}

static semel_status fake_connect(void **out, void *context, uint32_t wait_ms, semel_error *err)
{
    fake_server *s = context;
    fake_socket *made = calloc(1, sizeof *made);
    pthread_mutex_lock(&s->lock);
    s->given_ms = wait_ms;
    stand_at_the_door(s);
    pthread_mutex_unlock(&s->lock);
    wait_nap_us(100); /* so that others can come, if they are let */
    pthread_mutex_lock(&s->lock);
    s->at_the_door--;
    semel_status answer = s->answer;
    if (s->refusals || (s->every && s->tries % s->every == 0))
        answer = SEMEL_EUNAVAILABLE;
    s->refusals -= s->refusals > 0;
    if (!answer && ++s->open > s->open_max)
        s->open_max = s->open;
    pthread_mutex_unlock(&s->lock);
    if (answer) {
        free(made);
        return semel_fail(err, answer, "nobody is there");
    }
    made->of = s;
    *out = made;
    return SEMEL_OK;
}

static int fake_is_alive(void *connection)
{
    return !((fake_socket *)connection)->dead;
}

static void fake_close(void *connection)
{
    fake_server *s = ((fake_socket *)connection)->of;
    wait_nap_us(500); /* it is open until then */
    pthread_mutex_lock(&s->lock);
    s->open--;
    s->closed++;
    pthread_mutex_unlock(&s->lock);
    free(connection);
}

const pool_calls fake_calls = {fake_connect, fake_is_alive, fake_close};

/* --- a pool, and others who use it ------------------------------------------------------------------------ */

void pool_case_begin(pool_case *f, uint32_t limit)
{
    deadline_begin();
    fake_start(&f->server);
    served_count = 0;
    OK(pool_init(&f->pool, &fake_calls, &f->server, limit, &last_error));
}

void pool_case_end(pool_case *f)
{
    pool_destroy(&f->pool);
    assert_int_equal(f->server.open, 0);
    pthread_cond_destroy(&f->server.changed);
    pthread_mutex_destroy(&f->server.lock);
    deadline_end();
}

fake_socket *pool_case_take(pool_case *f, uint32_t wait_ms)
{
    void *connection = NULL;
    OK(pool_take(&connection, &f->pool, wait_ms, &last_error));
    assert_non_null(connection);
    return connection;
}

void pool_case_refused(pool_case *f, semel_status status, uint32_t wait_ms)
{
    void *connection = NULL;
    FAILS(status, pool_take(&connection, &f->pool, wait_ms, &last_error));
    assert_null(connection);
}

int served[CREW_MAX];
int served_count;
static pthread_mutex_t served_lock = PTHREAD_MUTEX_INITIALIZER;

static void customer_work(crew_member *member)
{
    customer *c = member->context;
    c->status = pool_take(&c->got, &c->f->pool, c->wait_ms, &c->err);
    if (c->status)
        return;
    pthread_mutex_lock(&served_lock);
    if (served_count < CREW_MAX)
        served[served_count++] = c->name;
    pthread_mutex_unlock(&served_lock);
    if (!c->keeps)
        pool_give(&c->f->pool, c->got, 1);
}

void customer_start(customer *c)
{
    crew_start(&c->thread, customer_work, c);
}

void customer_send(customer *c, pool_case *f, int name, uint32_t wait_ms)
{
    *c = (customer){.f = f, .name = name, .wait_ms = wait_ms};
    customer_start(c);
}

void customer_await(customer *c, semel_status status)
{
    assert_true(crew_join(&c->thread, POOL_MINUTE));
    assert_int_equal(c->status, status);
}

void *pool_case_taken_by_another(pool_case *f)
{
    customer c = {.f = f, .keeps = 1, .wait_ms = POOL_MINUTE};
    customer_start(&c);
    customer_await(&c, SEMEL_OK);
    return c.got;
}

void pool_case_await_asked(pool_case *f, uint64_t count)
{
    for (;;) {
        pthread_mutex_lock(&f->pool.lock);
        uint64_t asked = f->pool.asked;
        pthread_mutex_unlock(&f->pool.lock);
        if (asked >= count)
            return;
        wait_nap_us(200);
    }
}
