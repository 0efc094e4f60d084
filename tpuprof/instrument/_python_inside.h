/* What Python keeps to itself: its switch interval, and where a thread is while that thread runs. */

#ifndef TPUPROF_PYTHON_INSIDE_H
#define TPUPROF_PYTHON_INSIDE_H

#include <Python.h>
#include <stdint.h>

/* A frame: its address, that of its code object, and the byte in its code where it is. */
typedef struct {
    uintptr_t frame, code;
    intptr_t at;
} raw_place;

/* Read memory of this process; false where it does not exist, or the system lets no process do that. */
int raw_read(uintptr_t address, void *into, size_t size);

/* Where Python's switch interval is (us); NULL where that is unknown. Asked for with the GIL, it can be read and set
   without. */
unsigned long *switch_interval(void);

/* The innermost frames of a thread, at most `most`, read without the GIL; the number of them, 0 where they cannot be read.
   Who uses a code object of them must know from elsewhere that it is alive. */
int raw_stack(PyThreadState *thread, raw_place *places, int most);

/* The address that `raw_stack` gives for a frame object. */
uintptr_t raw_frame(PyObject *frame);

/* Bytes of the code of a code object. */
Py_ssize_t raw_size(PyObject *code);

#endif
