"""Steps that add up gradients, compiled by XLA for the CPU and written as serialized HLO.

A process of its own: JAX's threads must not be there when other tests fork.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp

TEACHER = jnp.ones((64, 48))
STUDENT = jnp.ones((64, 32))
OUT = jnp.ones((48, 32))
HELD = jnp.zeros((64, 48))
BATCH = jnp.ones((16, 64))


def loss(teacher, student, batch):
    target = jnp.tanh(batch @ teacher) @ OUT
    return jnp.square(jnp.tanh(batch @ student) - target).mean()


def both(teacher, student, batch):
    return jax.grad(loss, argnums=(0, 1))(teacher, student, batch)


def distill(held, teacher, student, batch):
    of_teacher, of_student = both(teacher, student, batch)
    return held + of_teacher, student - 0.1 * of_student


def clipped(held, teacher, student, batch):
    """The norm that scales the student's gradient is of the teacher's, too."""
    of_teacher, of_student = both(teacher, student, batch)
    held = held + of_teacher
    scale = 1 / jnp.sqrt(jnp.square(held).sum() + jnp.square(of_student).sum())
    return held * scale, student - 0.1 * of_student * scale


def read(held, teacher, student, batch):
    of_teacher, of_student = both(teacher, student, batch)
    held = held + of_teacher
    return held, student - 0.1 * of_student, jnp.abs(held).max()


def set_to_zero(held, teacher, student, batch):
    of_teacher, of_student = both(teacher, student, batch)
    return of_teacher, student - 0.1 * of_student


def moment(held, teacher, student, batch):
    """The teacher is trained, too: its sum is an optimizer's moment."""
    of_teacher, of_student = both(teacher, student, batch)
    held = 0.9 * held + of_teacher
    return held, teacher - 0.1 * held, student - 0.1 * of_student


def updated(held, teacher, student, batch):
    """A weight of the same dimensions that its own gradient is added to; `held` is no input of it."""
    of_teacher, of_student = both(teacher, student, batch)
    return teacher - 0.1 * of_teacher, student - 0.1 * of_student


def two_sums(held, other, teacher, second, student, batch):
    """Of two sums of the same dimensions one is of a trained part, whose gradients are accumulated."""
    first, last, of_student = jax.grad(
        lambda one, other, own: loss(one, own, batch) + loss(other, own, 2 * batch), argnums=(0, 1, 2)
    )(teacher, second, student)
    return held + first, other + last, student - 0.1 * of_student


def in_a_loop(held, teacher, student, batch):
    def turn(carry, rows):
        of_teacher, of_student = both(teacher, student, rows)
        return (carry[0] + of_teacher, carry[1] + of_student), None

    zeros = jnp.zeros_like(teacher), jnp.zeros_like(student)
    (of_teacher, of_student), _ = jax.lax.scan(turn, zeros, jnp.stack([batch, 2 * batch, 3 * batch]))
    return held + of_teacher, student - 0.1 * of_student


def of_table(rows, table, teacher, student):
    """The teacher looks rows of a table up, whose gradient is held, too."""
    return loss(teacher, student, table[rows])


def table(held, held_rows, table, teacher, student, rows):
    of_rows, of_teacher, of_student = jax.grad(of_table, argnums=(1, 2, 3), allow_int=True)(
        rows, table, teacher, student
    )
    return held + of_teacher, held_rows + of_rows, student - 0.1 * of_student


def largest(held, held_rows, table, teacher, student, rows):
    """Not a sum: the largest of what was there and what is given."""
    given = jax.grad(of_table, argnums=1, allow_int=True)(rows, table, teacher, student)
    return held, held_rows.at[rows].max(given[rows]), student


def elsewhere(held, gradient):
    return held + gradient


ROWS = jnp.arange(16) % 5
TABLE = jnp.ones((90, 64))
GIVEN = (HELD, TEACHER, STUDENT, BATCH)
PROGRAMS = {
    "distill": (distill, GIVEN),
    "clipped": (clipped, GIVEN),
    "read": (read, GIVEN),
    "set to zero": (set_to_zero, GIVEN),
    "moment": (moment, GIVEN),
    "updated": (updated, GIVEN),
    "two sums": (two_sums, (HELD, HELD, TEACHER, 2 * TEACHER, STUDENT, BATCH)),
    "in a loop": (in_a_loop, GIVEN),
    "table": (table, (HELD, TABLE, TABLE, TEACHER, STUDENT, ROWS)),
    "largest": (largest, (HELD, TABLE, TABLE, TEACHER, STUDENT, ROWS)),
    "elsewhere": (elsewhere, (HELD, HELD)),
}

for name, (function, given) in PROGRAMS.items():
    made = jax.jit(function, donate_argnums=(0,)).lower(*given).compile()
    module = made.runtime_executable().hlo_modules()[0]
    (Path(sys.argv[1]) / name).write_bytes(module.as_serialized_hlo_module_proto())
