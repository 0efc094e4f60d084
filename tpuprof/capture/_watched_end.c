/* Python runs a handler of its own between two of its instructions only. A program that hangs in native code never comes
   to the next one. So a native handler notes the signal and hands it on to Python, and a native thread counts the time.
   The handler does nothing but what POSIX allows in a handler (signal-safety(7)). */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "_watched_end.h"

/* How often the thread looks at a clock once the signal has come (per second). Nothing looks before. */
#define LOOKS_PER_S 20

static struct sigaction pythons;
/* What a library did on the signal before us, where `keeps` says so. */
static struct sigaction before;
static int keeps;
static pid_t owner;
static sem_t asked, begun, overdue;
static int overdue_after_s, lost_after_s, closing_for_s;

static void as_before(void)
{
    if (keeps)
        sigaction(SIGTERM, &before, NULL);
    else
        signal(SIGTERM, SIG_DFL);
}

static void end_now(void)
{
    sigset_t only;
    kill(getpid(), SIGTERM);
    /* Where every thread of the program blocks the signal, this one takes it. */
    sigemptyset(&only);
    sigaddset(&only, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

static void on_signal(int number)
{
    int kept = errno;
    if (getpid() != owner) {
        /* A process that C code forked, which runs no Python: it ends as it would without us. */
        as_before();
        kill(getpid(), number);
    } else {
        sem_post(&asked);
        pythons.sa_handler(number);
    }
    errno = kept;
}

static int posted_within(sem_t *what, int seconds)
{
    struct timespec look = {0, 1000000000L / LOOKS_PER_S};
    for (long left = (long)seconds * LOOKS_PER_S; left > 0; left--) {
        if (sem_trywait(what) == 0)
            return 1;
        nanosleep(&look, NULL);
    }
    return 0;
}

static void *watch(void *nothing)
{
    while (sem_wait(&asked) != 0)
        ;
    int closing = posted_within(&begun, overdue_after_s);
    if (!closing) {
        sem_post(&overdue);
        closing = posted_within(&begun, lost_after_s - overdue_after_s);
    }
    if (closing) {
        sleep(closing_for_s);
        /* We hang, or the library that handled the signal before us does. */
        signal(SIGTERM, SIG_DFL);
        end_now();
    } else
        in_time_end();
    return nothing;
}

int in_time_watch(int overdue_s, int lost_s, int closing_s)
{
    struct sigaction now;
    pthread_t thread;
    if (sigaction(SIGTERM, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO)
        || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN || now.sa_handler == on_signal)
        return -1;
    pythons = now;
    overdue_after_s = overdue_s;
    lost_after_s = lost_s;
    closing_for_s = closing_s;
    owner = getpid();
    if (sem_init(&asked, 0, 0) != 0 || sem_init(&begun, 0, 0) != 0 || sem_init(&overdue, 0, 0) != 0
        || pthread_create(&thread, NULL, watch, NULL) != 0)
        return -1;
    pthread_detach(thread);
    now.sa_handler = on_signal;
    return sigaction(SIGTERM, &now, NULL);
}

void in_time_begun(void)
{
    sem_post(&begun);
}

void in_time_wait_overdue(void)
{
    while (sem_wait(&overdue) != 0)
        ;
}

void in_time_end(void)
{
    as_before();
    end_now();
}

int in_time_handled_in(const char *part)
{
    struct sigaction now;
    Dl_info where;
    if (sigaction(SIGTERM, NULL, &now) != 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
        return 0;
    /* One address, by whichever name: both are one union. */
    return dladdr((void *)now.sa_handler, &where) != 0 && where.dli_fname != NULL
        && strstr(where.dli_fname, part) != NULL;
}

int in_time_keep(void)
{
    keeps = sigaction(SIGTERM, NULL, &before) == 0;
    return keeps ? 0 : -1;
}

void in_time_leave(void)
{
    if (keeps)
        sigaction(SIGTERM, &before, NULL);
    keeps = 0;
}
