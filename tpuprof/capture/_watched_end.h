/* Ends a process that was asked to end by SIGTERM, also where Python cannot run its handler of that signal. */
#ifndef TPUPROF_WATCHED_END_H
#define TPUPROF_WATCHED_END_H

/* Watch the process from now on. Python's own handler must be in place, and the calling thread must block all signals:
   the thread that this starts inherits that. Times in seconds, see terminate.py.
   Returns 0, or -1 where it cannot be done; then the signal is handled as before. */
int in_time_watch(int overdue_s, int lost_s, int closing_s);

/* Python has begun to keep what was captured. */
void in_time_begun(void);

/* Block until a signal came, and Python's handler did not begin in time. */
void in_time_wait_overdue(void);

/* End the process by SIGTERM as if we had never handled that signal. */
void in_time_end(void);

/* Whether the code that handles SIGTERM now lies in a file whose path holds that text. */
int in_time_handled_in(const char *part);

/* Keep what is done on SIGTERM now, for `in_time_end`: to be called before Python's handler is put in place.
   Returns 0, or -1 where it cannot be known. */
int in_time_keep(void);

/* Have done on SIGTERM again what was kept, if anything. */
void in_time_leave(void);

#endif
