"""How often a counted loop runs."""

import pytest

from tpuprof.decode.hlo_text import parse_hlo_text


def loop(condition: str, start: int, step: str = "add(%i, %one)", config: str = "") -> str:
    return f"""HloModule m, is_scheduled=true

%body (arg: (s32[], f32[2])) -> (s32[], f32[2]) {{
  %arg = (s32[], f32[2]) parameter(0)
  %one = s32[] constant(1)
  %i = s32[] get-tuple-element(%arg), index=0
  %x = f32[2] get-tuple-element(%arg), index=1
  %next = s32[] {step}
  %held = s32[] copy(%next)
  ROOT %out = (s32[], f32[2]) tuple(%held, %x)
}}

%condition (arg: (s32[], f32[2])) -> pred[] {{
  %arg = (s32[], f32[2]) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %limit = s32[] constant(10)
  {condition}
}}

ENTRY %main (x: f32[2]) -> f32[2] {{
  %x = f32[2] parameter(0)
  %start = s32[] constant({start})
  %copied = s32[] copy(%start)
  %tuple = (s32[], f32[2]) tuple(%copied, %x)
  %while.1 = (s32[], f32[2]) while(%tuple), condition=%condition, body=%body{config}
  ROOT %y = f32[2] get-tuple-element(%while.1), index=1
}}
"""


def trips(text: str) -> int | None:
    module = parse_hlo_text(text)
    return module.trip_count(module.entry.instructions["while.1"], module.entry)


@pytest.mark.parametrize(
    ("condition", "start", "step", "expected"),
    [
        ("ROOT %c = pred[] compare(%i, %limit), direction=LT", 0, "add(%i, %one)", 10),
        ("ROOT %c = pred[] compare(%i, %limit), direction=LE", 0, "add(%i, %one)", 11),
        ("ROOT %c = pred[] compare(%limit, %i), direction=GT", 4, "add(%one, %i)", 6),
        ("ROOT %c = pred[] compare(%i, %limit), direction=GT", 25, "subtract(%i, %one)", 15),
        ("ROOT %c = pred[] compare(%i, %limit), direction=LT", 12, "add(%i, %one)", 0),
        ("ROOT %c = pred[] compare(%i, %limit), direction=LT", 0, "multiply(%i, %one)", None),
        ("ROOT %c = pred[] compare(%i, %limit), direction=GT", 0, "add(%i, %one)", None),
        ("ROOT %c = pred[] compare(%i, %limit), direction=EQ", 0, "add(%i, %one)", None),
    ],
)
def test_counted(condition, start, step, expected):
    assert trips(loop(condition, start, step)) == expected


def test_of_two_comparisons_the_one_with_a_counter_counts():
    condition = """%zero = s32[] constant(0)
  %same = pred[] compare(%i, %zero), direction=EQ
  %less = pred[] compare(%i, %limit), direction=LT
  ROOT %both = pred[] or(%same, %less)"""
    assert trips(loop(condition, 0)) == 10


def test_a_stated_trip_count_wins():
    stated = ', backend_config={"known_trip_count":{"n":"7"}}'
    assert trips(loop("ROOT %c = pred[] compare(%i, %limit), direction=LT", 0, config=stated)) == 7
