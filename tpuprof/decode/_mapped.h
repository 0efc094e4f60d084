/* Survives a mapped file that is cut short while it is read.

   Reading a page that the file no longer has raises SIGBUS, which ends the process. For addresses of a mapping that was
   announced here, the handler puts pages of zeros in place and remembers it: the read goes on, and the caller finds
   out afterwards. Any other SIGBUS goes to whoever handled it before. */

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define TPUPROF_MAPPINGS 64

static struct { volatile uintptr_t begin, end; volatile sig_atomic_t cut; } tpuprof_mappings[TPUPROF_MAPPINGS];
static struct sigaction tpuprof_before;
static int tpuprof_installed = 0;

static void tpuprof_on_sigbus(int number, siginfo_t *info, void *context) {
    uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < TPUPROF_MAPPINGS; i++) {
        uintptr_t begin = tpuprof_mappings[i].begin, end = tpuprof_mappings[i].end;
        if (begin && at >= begin && at < end) {
            uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
            uintptr_t from = at - at % page;
            size_t size = (size_t)((end - from + page - 1) / page * page);
            void *zeros = mmap((void *)from, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            if (zeros != MAP_FAILED) {
                tpuprof_mappings[i].cut = 1;
                return;
            }
        }
    }
    if ((tpuprof_before.sa_flags & SA_SIGINFO) && tpuprof_before.sa_sigaction) {
        tpuprof_before.sa_sigaction(number, info, context);
    } else if (tpuprof_before.sa_handler != SIG_DFL && tpuprof_before.sa_handler != SIG_IGN) {
        tpuprof_before.sa_handler(number);
    } else {
        sigaction(SIGBUS, &tpuprof_before, NULL);  /* the read is tried again, and ends the process as it would have */
    }
}

/* Announces a mapping; its place in the table, -1 where that is full. Called with Python's lock held. */
static int tpuprof_guard(const void *begin, size_t size) {
    if (!tpuprof_installed) {
        struct sigaction action = {0};
        action.sa_sigaction = tpuprof_on_sigbus;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigemptyset(&action.sa_mask);
        if (sigaction(SIGBUS, &action, &tpuprof_before)) return -1;
        tpuprof_installed = 1;
    }
    for (int i = 0; i < TPUPROF_MAPPINGS; i++) {
        if (!tpuprof_mappings[i].begin) {
            tpuprof_mappings[i].cut = 0;
            tpuprof_mappings[i].end = (uintptr_t)begin + size;
            tpuprof_mappings[i].begin = (uintptr_t)begin;
            return i;
        }
    }
    return -1;
}

static int tpuprof_was_cut(int place) { return tpuprof_mappings[place].cut; }

static void tpuprof_release(int place) { tpuprof_mappings[place].begin = 0; }
