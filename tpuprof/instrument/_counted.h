/* The system's monotonic clock, which Python's `time.monotonic` reads as well on Linux (s). */
#if defined(__linux__)
#include <time.h>
#define HAS_MONOTONIC 1
static double monotonic_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
#else
#define HAS_MONOTONIC 0
static double monotonic_seconds(void) { return 0.0; }
#endif
