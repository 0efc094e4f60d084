/* Python's own headers, which differ between its versions, are included here alone.

   A stack is read while its thread runs. What is read may be gone by then, or half changed. So all is read through the
   kernel, which answers an address that does not exist with an error, and what was read is followed only to read again. */

#define _GNU_SOURCE
#define Py_BUILD_CORE 1
#include "_python_inside.h"

#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

int raw_read(uintptr_t address, void *into, size_t size)
{
    struct iovec here = {into, size}, there = {(void *)address, size};
    return address && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000

#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"

unsigned long *switch_interval(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    struct _gil_runtime_state *gil = NULL;
    if (!raw_read((uintptr_t)&PyInterpreterState_Get()->ceval.gil, &gil, sizeof(gil)) || !gil)
        return NULL;
    return &gil->interval;
#else
    return &_PyRuntime.ceval.gil.interval;
#endif
}

static uintptr_t innermost(PyThreadState *thread)
{
    uintptr_t frame = 0;
#if PY_VERSION_HEX >= 0x030D0000
    if (!raw_read((uintptr_t)thread + offsetof(PyThreadState, current_frame), &frame, sizeof(frame)))
        return 0;
#else
    uintptr_t cframe = 0;
    if (!raw_read((uintptr_t)thread + offsetof(PyThreadState, cframe), &cframe, sizeof(cframe)) ||
        !raw_read(cframe + offsetof(_PyCFrame, current_frame), &frame, sizeof(frame)))
        return 0;
#endif
    return frame;
}

int raw_stack(PyThreadState *thread, raw_place *places, int most)
{
    uintptr_t frame = innermost(thread);
    _PyInterpreterFrame found;
    int count = 0;
    while (frame && count < most && raw_read(frame, &found, offsetof(_PyInterpreterFrame, localsplus))) {
#if PY_VERSION_HEX >= 0x030D0000
        uintptr_t code = (uintptr_t)found.f_executable, instruction = (uintptr_t)found.instr_ptr;
#else
        uintptr_t code = (uintptr_t)found.f_code, instruction = (uintptr_t)found.prev_instr;
#endif
#if PY_VERSION_HEX >= 0x030C0000
        if (found.owner != FRAME_OWNED_BY_CSTACK)
#endif
        {
            places[count].frame = frame;
            places[count].code = code;
            places[count].at = (intptr_t)(instruction - code) - (intptr_t)offsetof(PyCodeObject, co_code_adaptive);
            count++;
        }
        frame = (uintptr_t)found.previous;
    }
    return count;
}

uintptr_t raw_frame(PyObject *frame)
{
    return (uintptr_t)((PyFrameObject *)frame)->f_frame;
}

Py_ssize_t raw_size(PyObject *code)
{
    return Py_SIZE(code) * (Py_ssize_t)sizeof(_Py_CODEUNIT);
}

#else

unsigned long *switch_interval(void) { return NULL; }
int raw_stack(PyThreadState *thread, raw_place *places, int most) { return 0; }
uintptr_t raw_frame(PyObject *frame) { return 0; }
Py_ssize_t raw_size(PyObject *code) { return 0; }

#endif
