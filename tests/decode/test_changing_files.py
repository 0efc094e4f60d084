"""A file that changes while it is read is a clean error, never the end of the process."""

import subprocess
import sys
import textwrap

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import mapped_file
from tpuprof.decode.load import load
from tpuprof.errors import TpuprofError


@pytest.fixture
def path(tmp_path):
    trace = TraceBuilder()
    line = trace.host().line("python")
    for number in range(20_000):
        line.event("train_step", number, 1, _r=1, step_num=number)
    return trace.write(tmp_path / "h.xplane.pb")


def test_a_file_that_stays_is_read(path):
    load(path).check()


def test_a_file_written_to_meanwhile(path):
    trace = load(path)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(TpuprofError) as raised:
        trace.check()
    assert raised.value.code == "input-changed"


def test_a_file_replaced_or_deleted_meanwhile_is_still_the_one_that_was_opened(path, tmp_path):
    trace = load(path)
    (tmp_path / "other").write_bytes(b"new")
    (tmp_path / "other").replace(path)
    trace.check()
    path.unlink()
    trace.check()


@pytest.mark.skipif(mapped_file._mapped is None, reason="the native modules are not built")
def test_a_file_cut_short_while_it_is_mapped(path):
    script = f"""
        import os
        from pathlib import Path
        from tpuprof.decode.mapped_file import ProfileFile
        from tpuprof.errors import TpuprofError
        path = Path({str(path)!r})
        size = path.stat().st_size
        file = ProfileFile(path)
        os.truncate(path, 4096)
        assert bytes(file.data[size - 10:]) == bytes(10)
        os.truncate(path, size)
        try:
            file.check()
        except TpuprofError as error:
            print(error.code.value, flush=True)
        del file
        import ctypes
        ctypes.string_at(8)  # a fault of another kind still ends the process
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "input-changed", done.stderr
    assert done.returncode < 0
