"""A search as the command runs it: one slice after the other, with a note of every point as it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.run import Outcome, Variant
from tpuprof.preflight.script import ScriptRun
from tpuprof.preflight.search.choices import AUTO, PRECISIONS, Axis, Choice, parse_search
from tpuprof.preflight.search.engine import Found, Search
from tpuprof.preflight.search.evaluate import Evaluator
from tpuprof.preflight.search.flags import FLAGS, known_flags
from tpuprof.preflight.search.own import Offered
from tpuprof.preflight.search.render import search_dict
from tpuprof.preflight.targets import Target

Progress = Callable[[str], None]
FILE = "search.json"


def search_slices(
    base: Variant,
    items: list[str],
    targets: list[Target],
    options: CompileOptions,
    budget: int,
    samples: float | None,
    out: Path,
    progress: Progress,
) -> list[Found]:
    """Search each slice with a budget of compiles of its own; Ctrl-C ends all of it and keeps what was found.

    OUT/search.json holds all that is known so far at any time.
    """
    axes = parse_search(items)
    batch, taken = _batch_of(axes), frozenset(axis.name for axis in axes)
    found: list[Found] = []
    for target in targets:
        each = Found(target.name)
        found.append(each)

        def noted(text: str) -> None:
            progress(text)
            _note(out, found, base.run)

        evaluator = Evaluator(base.run, target, options, noted, samples, batch, taken)
        progress(f"{target.name}: asking libtpu which of {len(FLAGS)} sets of flags it knows")
        flags = known_flags(FLAGS, target, options)
        progress(
            f"{target.name}: libtpu knows {len(flags)}" if flags else f"{target.name}: no flags are tried"
        )
        offers = evaluator.offers if AUTO in items else Offered
        Search(each, axes, flags, PRECISIONS, evaluator, budget, noted, offers).run()
        _note(out, found, base.run)
        if each.interrupted:
            break
    return found


def _batch_of(axes: list[Axis]) -> str:
    """The axis that is the batch, empty where none is. Raises `TpuprofError` (`usage`) where several are."""
    batches = [axis.name for axis in axes if Choice(axis.name, "").is_batch]
    if len(batches) > 1:
        raise TpuprofError(
            Code.USAGE,
            f"--search varies the batch by {' and '.join(batches)}.",
            "Vary one of them at a time.",
        )
    return batches[0] if batches else ""


def _note(out: Path, found: list[Found], run: ScriptRun) -> None:
    out.mkdir(parents=True, exist_ok=True)
    path = out / FILE
    text = json.dumps({"searches": [search_dict(each, run) for each in found]}, indent=1)
    path.with_suffix(".new").write_text(text, "utf-8")
    path.with_suffix(".new").replace(path)


def outcomes_of(found: list[Found]) -> list[Outcome]:
    """The script as it is and the winner, of each slice: what run folders are written of."""
    results = [each for one in found for each in (one.base, one.again) if each is not None]
    return [each.outcome for each in results if each.outcome is not None]
