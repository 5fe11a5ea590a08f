/* ucontext makes the stacks, and _setjmp and _longjmp switch between them: without the two system
 * calls for the mask of signals that swapcontext makes, which would be half of the simulation's
 * time. The sanitizers are told about each switch, and there it is swapcontext. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */
#include "support/keyed/sim_fiber.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define FIBER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define FIBER_THREAD
#endif
#endif
#ifdef FIBER_ADDRESS
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBER_THREAD
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK_SIZE = 256 << 10 };

struct sim_fiber {
    sim_fiber *next; /* of those that are not used */
    void (*run)(void *context);
    void *context;
    void *stack;
    ucontext_t place;
    jmp_buf jump;
    int begun, ended;
#ifdef FIBER_ADDRESS
    void *fake;
#endif
#ifdef FIBER_THREAD
    void *tsan;
#endif
};

static sim_fiber *unused;
static sim_fiber *current;
#if defined(FIBER_ADDRESS) || defined(FIBER_THREAD)
static ucontext_t scheduler;
#else
static jmp_buf scheduler_jump;
#endif
#ifdef FIBER_ADDRESS
static void *scheduler_fake;
static const void *scheduler_stack;
static size_t scheduler_size;
#endif
#ifdef FIBER_THREAD
static void *scheduler_tsan;
#endif

static void enter(sim_fiber *fiber)
{
#if defined(FIBER_ADDRESS)
    __sanitizer_start_switch_fiber(&scheduler_fake, fiber->stack, STACK_SIZE);
    (void)swapcontext(&scheduler, &fiber->place);
    __sanitizer_finish_switch_fiber(scheduler_fake, NULL, NULL);
#elif defined(FIBER_THREAD)
    scheduler_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan, 0);
    (void)swapcontext(&scheduler, &fiber->place);
#else
    if (_setjmp(scheduler_jump))
        return;
    if (fiber->begun)
        _longjmp(fiber->jump, 1);
    fiber->begun = 1;
    (void)setcontext(&fiber->place);
#endif
}

static void leave(sim_fiber *fiber)
{
#if defined(FIBER_ADDRESS)
    __sanitizer_start_switch_fiber(fiber->ended ? NULL : &fiber->fake, scheduler_stack,
                                   scheduler_size);
    (void)swapcontext(&fiber->place, &scheduler);
    __sanitizer_finish_switch_fiber(fiber->fake, &scheduler_stack, &scheduler_size);
#elif defined(FIBER_THREAD)
    __tsan_switch_to_fiber(scheduler_tsan, 0);
    (void)swapcontext(&fiber->place, &scheduler);
#else
    if (!_setjmp(fiber->jump))
        _longjmp(scheduler_jump, 1);
#endif
}

static void begin(void)
{
    sim_fiber *fiber = current;
#ifdef FIBER_ADDRESS
    __sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_size);
#endif
    fiber->run(fiber->context);
    fiber->ended = 1;
    leave(fiber);
    abort(); /* nobody resumes it */
}

static void *new_stack(void)
{
    void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        abort(); /* no test can go on */
    return stack;
}

sim_fiber *sim_fiber_new(void (*run)(void *context), void *context)
{
    sim_fiber *fiber = unused;
    if (fiber) {
        unused = fiber->next;
    } else {
        fiber = calloc(1, sizeof *fiber);
        if (!fiber)
            abort();
        fiber->stack = new_stack();
    }
    fiber->run = run;
    fiber->context = context;
    fiber->begun = fiber->ended = 0;
    (void)getcontext(&fiber->place);
    fiber->place.uc_stack.ss_sp = fiber->stack;
    fiber->place.uc_stack.ss_size = STACK_SIZE;
    fiber->place.uc_link = NULL;
    makecontext(&fiber->place, begin, 0);
#ifdef FIBER_THREAD
    fiber->tsan = __tsan_create_fiber(0);
#endif
    return fiber;
}

int sim_fiber_resume(sim_fiber *fiber)
{
    current = fiber;
    enter(fiber);
    current = NULL;
    if (!fiber->ended)
        return 1;
#ifdef FIBER_THREAD
    __tsan_destroy_fiber(fiber->tsan);
#endif
    fiber->next = unused;
    unused = fiber;
    return 0;
}

void sim_fiber_yield(void)
{
    leave(current);
}

void sim_fibers_free(void)
{
    while (unused) {
        sim_fiber *gone = unused;
        unused = gone->next;
        (void)munmap(gone->stack, STACK_SIZE);
        free(gone);
    }
}
