"""Text is present-day English: the forms that readers stumbled over do not come back."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Old or unclear forms, each with what to write. "Told" is checked in the sentences that used it, since it has other uses.
BANNED = {
    r"\banew\b": "again",
    r"\b(?:is|are|was|be) (?:not )?told\b": "is shown, is known, is reported",
    r"\b(?:cannot|can|could) (?:not )?be told\b": "is unknown, cannot be distinguished",
    r"\b(?:is|are) no (?:file|part|measurement|number|hash|folder|report|TOML|JSON|link|duration|section|signal)\b": "is not a",
    r"\b(?:ms|bytes|GiB|GB|MB|seconds|once|twice|graphs|ops|times) an? (?:step|chip|core|host|device|iteration)\b": "per",
    r"\bholds? (?:its|their) tongue\b": "does not report",
    r"\bread into the void\b": "a read whose result is not used",
    r"\bunasked\b": "by default",
    r"\bnames no reader\b": "no reader exists",
    r"\bwhere to\?": "state the path",
    r"\b(?:whom|whence|thereof|therein|wherein|shall|ought|lest|hitherto|amidst)\b": "a modern word",
    r"\b\d(?:\.\d+)?e\+\d": "a number with a unit that people use",
    r"\bMind (?:what|the|its)\b": "Note",
    r"\bheld against\b": "compared with",
    r"\bmends?\b": "fixes",
    r"steps from inferred": "steps inferred from",
}
KINDS = (".py", ".md", ".toml", ".html", ".pyx")


def texts():
    """Every text that people read, but for changelogs of the past, captures, and programs written as others write."""
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in names:
        old = name.startswith(("CHANGELOG", "sample_traces/", "fuzz/", "tests/"))
        if name.endswith(KINDS) and not old and (ROOT / name).is_file():
            yield name, (ROOT / name).read_text("utf-8")


def test_banned_forms_do_not_come_back():
    found = []
    for name, text in texts():
        # Line by line takes far longer, and nearly no form is in any.
        there = {form: better for form, better in BANNED.items() if re.search(form, text)}
        for number, line in enumerate(text.splitlines() if there else (), 1):
            found += [
                f"{name}:{number}: {match.group(0)!r}: write {better!r}"
                for form, better in there.items()
                for match in re.finditer(form, line)
            ]
    assert not found, "\n".join(found)


def test_each_form_is_recognised():
    sentences = [
        "It compiles anew.",
        "This is told elsewhere.",
        "It takes 3 ms a step.",
        "That is no file.",
        "It takes 1.65e+04 ms.",
        "Mind the gap.",
    ]
    assert all(any(re.search(form, each) for form in BANNED) for each in sentences)
