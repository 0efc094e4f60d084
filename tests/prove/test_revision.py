"""`tpuprof prove RULE -- COMMAND`: the program as the last commit has it, against the files as they are now."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpuprof.errors import TpuprofError
from tpuprof.prove.revision import before_the_change
from tpuprof.prove.sides import two_programs

# The step is in a module, as in a real repository; data are not tracked.
TRAIN = """
import pathlib, sys, time
import model
print("data", pathlib.Path("data/numbers.txt").read_text())
print("from", pathlib.Path(model.__file__).resolve())
began = time.perf_counter()
time.sleep(model.SECONDS)
print("step_ms:", (time.perf_counter() - began) * 1e3)
print("loss 1.5")
"""
IDENTITY = {
    f"GIT_{who}_{what}": "nobody@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(folder, *words):
    subprocess.run(
        ["git", "-C", str(folder), *words], check=True, capture_output=True, env={**os.environ, **IDENTITY}
    )


@pytest.fixture
def repository(tmp_path):
    """A repository whose last commit is slow, and whose working tree holds the fix."""
    root = tmp_path / "my project"
    (root / "data").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / "model.py").write_text("SECONDS = 0.2\n")
    (root / ".gitignore").write_text("data\n__pycache__\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "slow")
    (root / "data" / "numbers.txt").write_text("42")
    (root / "model.py").write_text("SECONDS = 0.1\n")
    return root


def state(root):
    """Every file below a folder with its content, git's own too."""
    return {each: each.read_bytes() for each in sorted(root.rglob("*")) if each.is_file()}


def prove(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "tpuprof", "prove", *words],
        capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


def test_the_last_commit_is_compared_with_the_working_tree(repository, tmp_path):
    held = state(repository)
    options = ["device-to-host-sync", "-o", str(tmp_path / "run"), "--no-capture", "--json", "--blocks", "4"]
    done = prove(repository, *options, "--", sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["outcome"] == "confirmed"
    assert 0.8 * 100 < found["saving_ms"] < 1.2 * 100
    assert found["before_command"] == found["after_command"] == [sys.executable, "train.py"]
    assert len(found["before_revision"]) == 40
    assert "model.py differ" in done.stderr
    assert state(repository) == held


def run(program):
    return subprocess.run(
        program.words, cwd=program.folder, env=program.environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("installed", [False, True])
def test_the_commits_own_modules_are_imported_and_data_are_shared(
    repository, absolute, installed, monkeypatch
):
    if installed:
        # As `pip install -e .` would: the working tree is where Python looks for modules.
        (repository / "pyproject.toml").write_text("")
        git(repository, "add", "pyproject.toml")
        git(repository, "commit", "-q", "-m", "installed", "pyproject.toml")
        monkeypatch.setenv("PYTHONPATH", str(repository))
    script = str(repository / "train.py") if absolute else "train.py"
    monkeypatch.chdir(repository)
    with before_the_change([sys.executable, script], "", repository) as (program, _):
        printed = run(program)
        copy = program.folder
        assert "data 42" in printed
        assert f"from {copy.resolve() / 'model.py'}" in printed
        assert not (copy / "__pycache__").is_symlink()
    assert not copy.exists()
    assert (repository / "data" / "numbers.txt").read_text() == "42"


def test_a_script_that_is_reached_by_a_link_is_the_commits(repository, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(repository)
    with before_the_change([sys.executable, f"{link}/train.py", f"--root={link}/"], "", link) as (program, _):
        assert f"from {program.folder.resolve() / 'model.py'}" in run(program)
        assert Path(program.words[2].partition("=")[2]) == program.folder


def test_a_command_in_a_subfolder_runs_in_the_same_subfolder(repository):
    (repository / "tools").mkdir()
    (repository / "tools" / "kept.py").write_text("")
    with before_the_change(["python", "kept.py"], "HEAD", repository / "tools") as (program, _):
        assert program.folder.name == "tools"
        assert program.folder.is_dir()


def test_a_commit_that_is_named(repository):
    git(repository, "commit", "-q", "-a", "-m", "fast")
    with pytest.raises(TpuprofError, match="nothing to prove"), before_the_change(["python"], "", repository):
        pass
    with before_the_change(["python"], "HEAD~1", repository) as (program, differs):
        assert (program.folder / "model.py").read_text() == "SECONDS = 0.2\n"
        assert "model.py differ" in differs
    with (
        pytest.raises(TpuprofError, match="finds no commit nowhere"),
        before_the_change(["python"], "nowhere", repository),
    ):
        pass


def test_without_a_repository_the_ways_are_told(tmp_path):
    done = prove(tmp_path, "device-to-host-sync", "--", sys.executable, "a.py")
    assert done.returncode == 2
    assert "in no git repository" in done.stderr
    assert "--before" in done.stderr


@pytest.mark.parametrize(
    ("before", "after", "commands"),
    [("python a.py", "", (["python", "a.py"], ["c"])), ("", "python b.py", (["c"], ["python", "b.py"]))],
)
def test_a_command_beside_one_option_is_the_other(before, after, commands):
    with two_programs(["c"], before, after, "", Path.cwd()) as (first, second, differs):
        assert ((first.words, second.words), differs) == (commands, "")


@pytest.mark.parametrize(
    ("command", "before", "after", "base"),
    [([], "", "", ""), ([], "a", "", ""), (["c"], "a", "b", ""), (["c"], "a", "", "HEAD"), ([], "", "", "HEAD"),
     ([], "a", "b", "HEAD")],
)  # fmt: skip
def test_what_is_not_two_programs_is_refused(command, before, after, base):
    with pytest.raises(TpuprofError, match="usage"), two_programs(command, before, after, base, Path.cwd()):
        pass


def test_a_first_word_that_is_no_rule_and_no_command(tmp_path):
    done = prove(tmp_path, "device-to-host-sink", "--", sys.executable, "a.py")
    assert done.returncode == 2
    assert "there is no rule" in done.stderr
