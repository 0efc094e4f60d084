"""Bad input gets one line, a stable code and exit status 2."""

import os
import subprocess
import sys

import pytest


def tpuprof(*args):
    return subprocess.run(
        [sys.executable, "-m", "tpuprof", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


CASES = {
    "empty.xplane.pb": (b"", "input-empty"),
    "notes.txt": (b"just some text\nover lines\n", "input-unknown-format"),
    "random.xplane.pb": (bytes(range(7, 256)) * 40, "input-unknown-format"),
    "cut.trace.json": (b'{"traceEvents": [{"ph": "X", "ts": 1', "input-truncated"),
    "cut.trace.json.gz": (b"\x1f\x8b\x08\x00garbage", "input-unknown-format"),
    "truncated.xplane.pb": (b"\x0a\x64\x12\x05/host", "input-truncated"),
    "no_planes.xplane.pb": (b"\x22\x03abc", "input-no-activity"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_file(tmp_path, name):
    data, code = CASES[name]
    (tmp_path / name).write_bytes(data)
    done = tpuprof("analyze", tmp_path / name)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith(f"[{code}]")
    assert name in lines[0]


def test_missing_path(tmp_path):
    done = tpuprof("analyze", tmp_path / "nowhere")
    assert (done.returncode, done.stderr.strip()[-17:]) == (2, "[input-not-found]")


def test_folder_without_a_trace(tmp_path):
    (tmp_path / "readme.md").write_text("nothing here")
    done = tpuprof("analyze", tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[input-no-trace]")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_unreadable_file(tmp_path):
    path = tmp_path / "secret.xplane.pb"
    path.write_bytes(b"\x0a\x02\x08\x01")
    path.chmod(0)
    done = tpuprof("analyze", path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[input-unreadable]")


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "-o", "/dev/null/x.html"),
        ("report", "-o", "/nowhere/x.html"),
        ("check", "-b", "smoke", "--junit", "/nowhere/a.xml"),
        ("export", "--parquet", "-t", "steps", "-o", "/dev/null/x"),
    ],
    ids=" ".join,
)
def test_an_output_that_cannot_be_written(samples, arguments):
    if arguments[0] == "export":
        pytest.importorskip("pyarrow")
    done = tpuprof(arguments[0], samples / "decoder_loop", *arguments[1:])
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].endswith("[output-failed]")


def test_tensorboard_says_what_is_wrong_with_a_folder(samples, tmp_path):
    missing = tpuprof("tensorboard", tmp_path / "nowhere", "--write-only")
    assert missing.stderr.endswith("no such file or folder. Check the path. [input-not-found]\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("analyze",), "tpuprof analyze: missing argument 'path'"),
        (("analyze", "--nope", "x"), "tpuprof analyze: no such option: --nope"),
        (("analyze", "--hosts", "x", "y"), "tpuprof analyze: invalid value for '--hosts'"),
        (("analyze2", "x"), "no such command 'analyze2'. Did you mean 'analyze'?"),
        (("--nope",), "no such option: --nope"),
    ],
)
def test_a_usage_error_is_one_line_with_a_code(arguments, said):
    done = tpuprof(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"tpuprof: {said}")
    assert done.stderr.strip().endswith("--help` lists what is possible. [usage]")


def test_no_command_is_the_help_and_a_line():
    done = tpuprof()
    assert done.returncode == 2
    assert "Commands:" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("[usage]")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_what_is_asked_of_the_command_itself_is_no_error(argument):
    done = tpuprof(argument)
    assert done.returncode == 0
    assert done.stderr == ""


def test_debug_shows_the_traceback(tmp_path):
    done = tpuprof("--debug", "analyze", tmp_path / "nowhere")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_a_file_of_three_gigabytes(tmp_path, monkeypatch):
    """Too large for the protobuf reader: said at once, without reading it."""
    path = tmp_path / "large.xplane.pb"
    with path.open("wb") as file:
        file.write(b"\x0a\xff\xff\xff\xff\x0b\x12\x05/host")
        file.truncate(3_000_000_000)
    monkeypatch.setenv("TPUPROF_READER", "protobuf")
    done = tpuprof("analyze", path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[input-too-large]")
