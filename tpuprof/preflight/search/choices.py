"""What a search varies: a script's own settings, the compiler's flags, and the precision of matrix products."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.options import MESH_VARIABLE
from tpuprof.preflight.run import with_setting
from tpuprof.preflight.script import ScriptRun
from tpuprof.preflight.trying_names import AUTOCAST, OFFLOAD, REMAT, SCAN, SCAN_REMAT, VARIABLE

SETTING, FLAG, PRECISION = "setting", "flag", "precision"
# An option without a value; a change made from outside (see `trying`); another shape of the script's mesh.
SWITCH, TRY, MESH = "switch", "change", "mesh"
# The word that stands for what a search tries by itself.
AUTO = "auto"
FLAG_VARIABLE = "LIBTPU_INIT_ARGS"
# Sets the precision in a script that uses torch_xla (see `hook`), and in one that uses JAX.
PRECISION_VARIABLES = ("TPUPROF_PREFLIGHT_PRECISION", "JAX_DEFAULT_MATMUL_PRECISION")
_AXIS = re.compile(r"^([A-Za-z_][\w-]*)=(.+)$")
_BATCH = re.compile(r"(^|[_-])(batch|bs|bsz)($|[_-])|^batch", re.IGNORECASE)


@dataclass(frozen=True)
class Choice:
    """One setting with the value that is tried. `value` of a flag is what stands in the variable.

    `by_itself`: the search found it, the user did not ask for it. `a+b` with the value `2+4` is two settings at once.
    """

    name: str
    value: str
    kind: str = SETTING
    by_itself: bool = field(default=False, compare=False)

    @property
    def is_batch(self) -> bool:
        """Whether it is, by its name, how many samples one step trains."""
        return self.kind == SETTING and bool(_BATCH.search(self.name)) and "micro" not in self.name.lower()

    @property
    def label(self) -> str:
        """Short name for a table."""
        if self.kind == SWITCH:
            return f"--{self.name}"
        if self.kind == TRY:
            return self.name
        return f"{self.name}={self.value}" if self.kind in (SETTING, MESH) else self.name

    @property
    def settings(self) -> list[tuple[str, str]]:
        """Names and values of the script's settings in it."""
        if self.kind != SETTING or not self.by_itself:
            return [(self.name, self.value)]
        return list(zip(self.name.split("+"), self.value.split("+"), strict=True))


# Only the fastest is tried: a TPU multiplies float32 at any other precision in more passes.
PRECISIONS = (Choice("matmul-precision=default", "default", PRECISION),)
_CHANGES = {
    AUTOCAST: 'with torch.autocast("xla", dtype=torch.bfloat16): around the call of the model',
    REMAT: "from torch_xla.distributed.fsdp import checkpoint_module; "
    "for layer in {layers}: checkpoint_module(layer), once, before the first step",
    OFFLOAD: "each of {layers} in a torch.autograd.Function that keeps its input with "
    "torch_xla.experimental.stablehlo_custom_call.place_to_host and computes it again in the backward",
    SCAN: "from torch_xla.experimental.scan_layers import scan_layers; x = scan_layers({layers}, x) "
    "in place of the loop",
    SCAN_REMAT: "x = scan_layers({layers}, x, partition_fn=min_cut_rematerialization_partition) in place of the loop "
    "(from torch_xla.experimental.scan_layers, and from functorch.compile)",
}
# Settings that differ from the script as it was given; empty for the script itself.
Point = tuple[Choice, ...]


@dataclass(frozen=True)
class Axis:
    """A setting of the script and the values to try, in the user's order."""

    name: str
    values: tuple[str, ...]


def parse_search(items: list[str]) -> list[Axis]:
    """`batch=8,16` and `remat=none,full` as axes; `auto` adds none. Raises `TpuprofError` (USAGE)."""
    axes: list[Axis] = []
    for item in items:
        if item == AUTO:
            continue
        found = _AXIS.match(item)
        values = [each.strip() for each in found.group(2).split(",") if each.strip()] if found else []
        if found is None or not values:
            raise TpuprofError(
                Code.USAGE, f"--search {item!r} is neither NAME=VALUE,VALUE... nor {AUTO}.",
                f"For example --search batch=8,16 --search remat=none,full; --search {AUTO} tries compiler flags.",
            )  # fmt: skip
        if any(each.name == found.group(1) for each in axes):
            raise TpuprofError(
                Code.USAGE, f"--search names {found.group(1)} twice.", "Give all its values at once."
            )
        axes.append(Axis(found.group(1), tuple(dict.fromkeys(values))))
    return axes


def label_of(point: Point) -> str:
    """What a point changes, in a few words."""
    return " ".join(each.label for each in point) or "the script as it is"


def changed(run: ScriptRun, point: Point) -> ScriptRun:
    """The script's run with a point's settings."""
    flags, tried = [], []
    for each in point:
        if each.kind == SETTING:
            for name, value in each.settings:
                run = with_setting(run, name, value)
        elif each.kind == SWITCH:
            run = replace(run, arguments=[*run.arguments, f"--{each.name}"])
        elif each.kind == FLAG:
            flags.append(each.value)
        elif each.kind == TRY:
            tried.append(each.name)
        elif each.kind == MESH:
            run = replace(run, environment={**run.environment, MESH_VARIABLE: each.value})
        else:
            run = replace(
                run, environment={**run.environment, **dict.fromkeys(PRECISION_VARIABLES, each.value)}
            )
    if tried:
        run = replace(run, environment={**run.environment, VARIABLE: ",".join(tried)})
    if not flags:
        return run
    given = run.environment.get(FLAG_VARIABLE, os.environ.get(FLAG_VARIABLE, ""))
    # The compiler takes the last of two values of one flag.
    text = " ".join(part for part in (given, *flags) if part)
    return replace(run, environment={**run.environment, FLAG_VARIABLE: text})


def changes_to_make(run: ScriptRun, point: Point) -> list[str]:
    """What the user does to get a point: arguments, environment, or a line of the script."""
    found = []
    for each in point:
        if each.kind == PRECISION:
            call = f'import torch_xla.backends; torch_xla.backends.set_mat_mul_precision("{each.value}")'
            found.append(
                f"{call} in place of the script's own; with JAX the environment variable "
                f"{PRECISION_VARIABLES[1]}={each.value}"
            )
        elif each.kind == SETTING:
            found += [_of_setting(run, name, value) for name, value in each.settings]
        elif each.kind == SWITCH:
            found.append(f"argument --{each.name}")
        elif each.kind == TRY:
            found.append(_CHANGES[each.name].format(layers=each.value))
        elif each.kind == MESH:
            found.append(
                f"mesh shape ({each.value}) for the axes {each.name.removeprefix('mesh ')}, in the script"
            )
    flags = [each.value for each in point if each.kind == FLAG]
    if flags:
        found.append(f'environment variable {FLAG_VARIABLE}="{" ".join(flags)}"')
    return found


def _of_setting(run: ScriptRun, name: str, value: str) -> str:
    if "{" + name + "}" in " ".join(run.arguments):
        return f"{name}={value} in the script's arguments"
    return f"environment variable {name}={value}" if name.isupper() else f"argument --{name} {value}"


def value_of(run: ScriptRun, name: str) -> str:
    """The value that a run gives a setting; empty where the script's own default holds."""
    if name.isupper():
        return run.environment.get(name, os.environ.get(name, ""))
    option = f"--{name}"
    for index, each in enumerate(run.arguments):
        if each == option and index + 1 < len(run.arguments):
            return run.arguments[index + 1]
        if each.startswith(f"{option}="):
            return each.partition("=")[2]
    return ""
