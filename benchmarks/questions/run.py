"""Asks all questions through a real client of `tpuprof mcp` over stdio, and checks every answer.

    python -m benchmarks.questions.run [FOLDER_OF_OTHER_CAPTURES]

The folder may hold `tpu_v6e_host_offload`; without it, its questions are left out, and that is said. Exit status: 0 if
all answers are exact, within three calls and 4,000 tokens each, else 1.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks.questions.questions import V6E, Question, questions
from benchmarks.questions.truth import Capture

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_traces"
# What an answer may take: all answers of one question together.
MOST_CALLS, MOST_TOKENS = 3, 4_000
# Fewer characters to a token than in most JSON, so that tokens are not counted too low (characters).
CHARACTERS_PER_TOKEN = 3


@dataclass(frozen=True)
class Asked:
    """One question, what came of it, and what it took."""

    question: Question
    answer: Any
    truth: Any
    calls: int
    tokens: int

    @property
    def good(self) -> bool:
        """Whether the answer is exact and small."""
        return self.answer == self.truth and self.calls <= MOST_CALLS and self.tokens <= MOST_TOKENS


async def ask(folders: list[Path], asked: list[Question]) -> list[Asked]:
    """Put questions to a server that is started for them."""
    command = ["-m", "tpuprof", "mcp", *map(str, folders)]
    read: dict[str, Capture] = {}
    found = []
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=command))) as client:
        for question in asked:
            texts = []
            for tool, arguments in question.calls:
                heard = await client.call_tool(tool, arguments)
                texts.append("".join(part.text for part in heard.content))  # type: ignore[union-attr]
            for name in question.captures:
                read.setdefault(name, Capture(_folder(folders, name)))
            truth = question.truth(*(read[name] for name in question.captures))
            tokens = -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)
            found.append(Asked(question, _read(question, texts), truth, len(question.calls), tokens))
    return found


def main(arguments: list[str]) -> int:
    """Ask, and print what came of each question."""
    folders = [SAMPLES]
    others = Path(arguments[0]) if arguments else None
    with_v6e = others is not None and (others / V6E).is_dir()
    if with_v6e and others is not None:
        folders.append(others)
    else:
        print(f"{V6E} is not on this machine: its questions are left out")
    found = asyncio.run(ask(folders, questions(with_v6e)))
    for each in found:
        mark = "exact" if each.good else f"WRONG: {each.answer!r}, not {each.truth!r}"
        print(f"{', '.join(each.question.captures)}: {each.question.text} {each.tokens} tokens. {mark}")
    good = sum(each.good for each in found)
    print(
        f"{good} of {len(found)} answers are exact; the largest took {max(each.tokens for each in found)} tokens"
    )
    return 0 if good == len(found) else 1


def _folder(folders: list[Path], name: str) -> Path:
    return next(folder / name for folder in folders if (folder / name).is_dir())


def _read(question: Question, texts: list[str]) -> Any:
    try:
        return question.read([json.loads(text) for text in texts])
    except (ValueError, KeyError, IndexError, TypeError):
        return texts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
