"""The program as a git revision holds it: a copy of that revision in a folder of its own, beside the user's files.

The user's repository is only read: the copy is made through an index of its own. Files that git does not track (data,
virtual environments) are reached from the copy by links, so both programs read the same ones.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.prove.program import Program
from tpuprof.units import listed

# Installed in place (`pip install -e .`), modules are imported from the working tree unless the copy comes first.
_INSTALLED_BY = ("pyproject.toml", "setup.py", "setup.cfg")
_SOURCES = ("", "src")
# What Python itself keeps beside sources. A link to it would let both programs write each other's.
_CACHE = "__pycache__"
# Files named in the message that says what differs (count).
_NAMED = 3


@contextmanager
def before_the_change(command: list[str], revision: str, here: Path) -> Iterator[tuple[Program, str]]:
    """The program of a revision (empty: the last commit), and what differs from it, in words.

    The copy is gone at the end. Raises `TpuprofError` (`usage`) where there is no such revision, or nothing differs.
    """
    root = _root(here)
    commit = _git(root, "rev-parse", "--verify", "--quiet", f"{revision or 'HEAD'}^{{commit}}")
    if commit is None:
        raise TpuprofError(
            Code.USAGE, f"git finds no commit {revision or 'HEAD'} here.", "`git log` lists commits."
        )
    commit = commit.strip()
    changed = [each for each in (_git(root, "diff", "--name-only", "-z", commit) or "").split("\0") if each]
    if not changed:
        raise TpuprofError(
            Code.USAGE,
            f"no file that git tracks differs from {revision or 'the last commit'}, so there is nothing to prove.",
            "Give the commit before the fix (--base HEAD~1), or the other command (--before or --after).",
        )
    with tempfile.TemporaryDirectory(prefix="tpuprof-before-") as scratch:
        copy = Path(scratch) / (root.name or "copy")
        _check_out(root, commit, copy, Path(scratch) / "index")
        _link_the_rest(root, copy)
        program = Program(
            command,
            [_moved(word, root, copy) for word in command],
            copy / here.resolve().relative_to(root),
            _variables(root, copy),
            commit,
        )
        yield program, _differences(commit, changed)


def _root(here: Path) -> Path:
    found = _git(here, "rev-parse", "--show-toplevel")
    if not found:
        raise TpuprofError(
            Code.USAGE,
            "the program before the fix is unknown: this folder is in no git repository with a commit.",
            'Give the other command: --before "python a.py", or --after "python b.py".',
        )
    return Path(found.rstrip("\n")).resolve()


def _check_out(root: Path, commit: str, copy: Path, index: Path) -> None:
    """Write the files of a commit, as git would check them out; neither the user's index nor files are touched."""
    own = {"GIT_INDEX_FILE": str(index)}
    copy.mkdir()
    done = _git(root, "read-tree", commit, more=own) is not None
    if not done or _git(root, "checkout-index", "--all", "--force", f"--prefix={copy}/", more=own) is None:
        raise TpuprofError(
            Code.USAGE,
            f"git cannot check out {commit[:10]} into {copy}.",
            'Give the other command: --before "python a.py".',
        )


def _link_the_rest(root: Path, copy: Path) -> None:
    """Links to what git does not track, ignored files too, and to submodules, which a commit does not hold."""
    listed = _git(root, "ls-files", "--others", "--directory", "-z") or ""
    modules = _git(root, "ls-files", "--stage", "-z") or ""
    submodules = [line.partition("\t")[2] for line in modules.split("\0") if line.startswith("160000 ")]
    for name in [*listed.split("\0"), *submodules]:
        place = copy / name.rstrip("/")
        if not name or place.name == _CACHE:
            continue
        if name in submodules and place.is_dir():
            place.rmdir()
        if not place.exists() and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(root / name.rstrip("/"))


def _moved(word: str, root: Path, copy: Path) -> str:
    """A word of the command: a path of a tracked file, alone or as `--option=PATH`, is its copy's."""
    option, equals, path = word.partition("=") if word.startswith("-") else ("", "", word)
    if not os.path.isabs(path):
        return word
    # The repository may be reached by a link; a file of it that is a link itself keeps its name.
    real = Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if not real.is_relative_to(root):
        return word
    place = copy / real.relative_to(root)
    held = place.exists() and place.resolve().is_relative_to(copy.resolve())
    return f"{option}{equals}{place}" if held else word


def _variables(root: Path, copy: Path) -> dict[str, str]:
    """PYTHONPATH, so that modules of the repository are the copy's, also where the repository is installed in place."""
    present = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    paths = [_moved(each, root, copy) for each in present]
    if any((copy / each).is_file() for each in _INSTALLED_BY):
        paths += [str(copy / each) for each in _SOURCES if (copy / each).is_dir()]
    return {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}


def _differences(commit: str, changed: list[str]) -> str:
    return f"before is commit {commit[:10]}, after is the working tree; {listed(changed, _NAMED)} differ"


def _git(folder: Path, *words: str, more: dict[str, str] | None = None) -> str | None:
    """What git prints; None where it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            env={**os.environ, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
