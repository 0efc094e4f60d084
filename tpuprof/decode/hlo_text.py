"""Reads HLO text as XLA prints it, above all the optimized, scheduled program of a TPU executable."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.decode.hlo_shape import parse_shape, split_parts
from tpuprof.errors import Code, TpuprofError

_HEADER = re.compile(r"^HloModule ([^\s,]+)")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([^\s(]+) \(.*\{$|^(ENTRY )?%?([^\s({=]+) \{$")
_INSTRUCTION = re.compile(r"^\s*(ROOT )?%?([^\s=]+) = (.*)$", re.DOTALL)
_OPCODE = re.compile(r"\s*([a-z][a-zA-Z0-9\-]*)\(")
_METADATA = re.compile(r',\s*metadata=\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}')
_META_FIELD = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(-?\d+))')
_BACKEND_CONFIG = re.compile(r",\s*backend_config=")
_ALIAS = re.compile(r"\{(\d*)\}: \((\d+), \{")
_TABLE_ROW = re.compile(r"^(\d+) (?:\"(.*)\"|\{(.*)\})$")
_BRACKETS = re.compile(r'\\.|["()\[\]{}]')
_COMMENT = re.compile(r"/\*.*?\*/")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_FRAME = re.compile(r'(metadata=\{(?:"(?:[^"\\]|\\.)*"|[^"}])*?) ?\bstack_frame_id=\d+')
_CALLS = ("calls", "to_apply", "body", "condition", "branch_computations", "called_computations", "called_computation",
          "select", "scatter", "true_computation", "false_computation")  # fmt: skip


@dataclass
class _Tables:
    """The source tables newer XLA prints before the first computation; ids count from 1."""

    rows: dict[str, dict[int, str]] = field(default_factory=lambda: {name: {} for name in _TABLES})

    def location(self, frame_id: int) -> tuple[str, int]:
        """File and line of a stack frame, ("", 0) where a table has no such row."""
        frame = _numbers(self.rows["StackFrames"].get(frame_id, ""))
        place = _numbers(self.rows["FileLocations"].get(frame.get("file_location_id", 0), ""))
        return self.rows["FileNames"].get(place.get("file_name_id", 0), ""), place.get("line", 0)


def parse_hlo_text(text: str) -> HloModule:
    """Parse a module printed by XLA.

    Raises `TpuprofError` (UNKNOWN_FORMAT) where the text holds no HLO module. Lines that are no instruction
    are passed over, so that attributes of newer compilers do no harm.
    """
    header = _HEADER.search(text[: text.find("\n")] if "\n" in text else text)
    if header is None:
        raise TpuprofError(Code.UNKNOWN_FORMAT, "This is not HLO text: it does not begin with HloModule.")
    lines = text.split("\n")
    module = HloModule(header.group(1), "", {})
    module.attributes = _attributes(split_parts(lines[0][header.end() :].lstrip(", ")))
    module.is_scheduled = module.attributes.get("is_scheduled") == "true"
    module.aliases = _aliases(module.attributes.get("input_output_alias", ""))
    _parse_body(module, lines[1:])
    return module


def without_stack_frames(text: str) -> str:
    """The same program without the source tables that newer XLA prints, for a reader that does not know them."""
    kept, in_table = [], False
    for line in text.split("\n"):
        in_table = line in _TABLES or (in_table and _TABLE_ROW.match(line) is not None)
        if not in_table:
            kept.append(_FRAME.sub(r"\1", line))
    return "\n".join(kept)


def _parse_body(module: HloModule, lines: list[str]) -> None:
    tables, table = _Tables(), ""
    current: Computation | None = None
    pending: list[str] = []
    for line in lines:
        if current is None:
            if line in _TABLES:
                table = line
            elif table and (row := _TABLE_ROW.match(line)):
                tables.rows[table][int(row.group(1))] = (
                    row.group(2) if row.group(2) is not None else row.group(3)
                )
            elif found := _COMPUTATION.match(line):
                current = Computation(found.group(2) or found.group(4))
                module.computations[current.name] = current
                if found.group(1) or found.group(3):
                    module.entry_name = current.name
            continue
        ends = line == "}" or line.startswith("}, execution_thread")
        if ends or _INSTRUCTION.match(line):
            _add_instruction(current, pending, tables)
            pending = []
        # Long literals and kernel metadata run over several lines.
        pending.append(line)
        if ends:
            current, pending = None, []


def _add_instruction(computation: Computation, lines: list[str], tables: _Tables) -> None:
    instruction = _parse_instruction("\n".join(lines), tables) if lines else None
    if instruction:
        computation.instructions[instruction.name] = instruction


def _parse_instruction(line: str, tables: _Tables) -> Instruction | None:
    found = _INSTRUCTION.match(line)
    if found is None:
        return None
    body, config = _cut_backend_config(found.group(3))
    meta = _METADATA.search(body)
    if meta:
        body = body[: meta.start()] + body[meta.end() :]
    end = _shape_end(body)
    opcode = _OPCODE.match(body, end)
    if opcode is None:
        return None
    close = _matching(body, opcode.end() - 1)
    inside, rest = body[opcode.end() : close], body[close + 1 :]
    result = Instruction(found.group(2), opcode.group(1), parse_shape(body[:end]))
    result.is_root = found.group(1) is not None
    result.backend_config = config
    result.text = f"%{result.name} = {body}"
    result.shape_text = body[:end]
    _fill_operands(result, inside)
    _fill_attributes(result, rest)
    if meta:
        _fill_metadata(result, meta.group(1), tables)
    return result


def _cut_backend_config(body: str) -> tuple[str, str]:
    found = _BACKEND_CONFIG.search(body)
    if found is None:
        return body, ""
    start = found.end()
    if body[start : start + 1] != "{":
        return body[: found.start()], body[start:]
    end = _matching(body, start) + 1
    return body[: found.start()] + body[end:], body[start:end]


def _fill_operands(result: Instruction, inside: str) -> None:
    if result.opcode == "parameter":
        result.parameter_number = int(inside) if inside.isdigit() else None
    elif result.opcode == "constant":
        result.literal = inside
    else:
        parts = split_parts(_COMMENT.sub("", inside) if "/*" in inside else inside)
        result.operands = [part.rsplit(" ", 1)[-1].lstrip("%") for part in parts]


def _fill_attributes(result: Instruction, rest: str) -> None:
    for key, value in _attributes(split_parts(rest.lstrip(", "))).items():
        if key in _CALLS:
            result.called[key] = [name.strip().lstrip("%") for name in value.strip("{}").split(",")]
        else:
            result.attributes[key] = value


def _fill_metadata(result: Instruction, text: str, tables: _Tables) -> None:
    fields = {key: quoted or number for key, quoted, number in _META_FIELD.findall(text)}
    result.op_name = fields.get("op_name", "").replace('\\"', '"')
    result.source_file = fields.get("source_file", "")
    result.source_line = int(fields.get("source_line", 0) or 0)
    frame = int(fields.get("stack_frame_id", 0) or 0)
    if frame and not result.source_file:
        result.source_file, result.source_line = tables.location(frame)


def _attributes(parts: list[str]) -> dict[str, str]:
    pairs = (part.partition("=") for part in parts)
    return {key: value for key, equals, value in pairs if equals}


def _aliases(text: str) -> dict[int, int]:
    """Output number by the number of the parameter whose buffer it takes."""
    return {int(parameter): int(output or 0) for output, parameter in _ALIAS.findall(text)}


def _shape_end(body: str) -> int:
    if body.startswith("("):
        return _matching(body, 0) + 1
    space = body.find(" ")
    return space if space >= 0 else len(body)


def _matching(text: str, start: int) -> int:
    """Position of the bracket that closes the one at `start`; the last position where none does."""
    depth, quoted = 0, False
    for found in _BRACKETS.finditer(text, start):
        char = found.group()
        if char == '"':
            quoted = not quoted
        elif quoted or char[0] == "\\":
            continue
        elif char in "([{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return found.start()
    return len(text) - 1


def _numbers(text: str) -> dict[str, int]:
    return {key: int(value) for key, _, value in _META_FIELD.findall(text) if value}
