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

/* End the process by SIGTERM as if nobody had ever handled that signal. */
void in_time_end(void);

#endif
