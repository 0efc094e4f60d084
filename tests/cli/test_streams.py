"""Odd terminals, pipes and arguments: one line at most, and the exit status that is documented."""

import gzip
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tpuprof.cli.main import app
from tpuprof.errors import Code, TpuprofError

SAMPLE = str(ROOT / "sample_traces" / "recompile_shapes")
OTHER = str(ROOT / "sample_traces" / "decoder_loop")
TPUPROF = f"{sys.executable} -m tpuprof"


def shell(command, **environment):
    return subprocess.run(
        ["bash", "-c", command.replace("tpuprof ", f"{TPUPROF} ", 1)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("options", ["", "--json", "--md"])
def test_a_full_disk(options):
    done = shell(f"tpuprof analyze {SAMPLE} {options} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[output-failed]")
    assert len(done.stderr.strip().splitlines()) == 1


def test_closed_output():
    done = shell(f"tpuprof analyze {SAMPLE} >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_encoding_that_lacks_our_characters():
    done = shell(f"tpuprof analyze {SAMPLE}", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Compile-bound" in done.stdout


def test_signs_and_bars_keep_their_meaning_in_any_encoding():
    lacking = shell(f"tpuprof diff {SAMPLE} {OTHER}", PYTHONIOENCODING="ascii").stdout
    whole = shell(f"tpuprof diff {SAMPLE} {OTHER}", PYTHONIOENCODING="utf-8").stdout
    assert "−" in whole
    assert "?" not in lacking
    assert lacking.count("-") == whole.count("-") + whole.count("−")
    lacking = shell(f"tpuprof analyze {SAMPLE}", PYTHONIOENCODING="ascii").stdout
    assert "?" not in lacking
    assert "####" in lacking


@pytest.mark.parametrize("command", ["rules", f"analyze {SAMPLE}", f"analyze {SAMPLE} --json"])
def test_a_reader_that_leaves(command):
    done = shell(f"tpuprof {command} | head -c 1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_leaves_a_comparison_is_told_nothing_of_its_outcome():
    """Status 1 would say that the candidate is worse. The reader is gone before the first byte is written."""
    done = shell(f"tpuprof diff {SAMPLE} {SAMPLE} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("columns", ["0", "-3", "wide"])
def test_columns_that_make_no_sense(columns):
    done = shell(f"tpuprof analyze {SAMPLE}", COLUMNS=columns)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Compile-bound" in done.stdout


def test_piped_text_is_not_cut_to_a_terminal():
    done = shell(f"unset COLUMNS; tpuprof analyze {SAMPLE}")
    assert max(map(len, done.stdout.splitlines())) > 80


def test_an_empty_argument_is_not_this_folder():
    done = shell('tpuprof analyze ""')
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[usage]")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "f")
    done = shell(f"tpuprof analyze {tmp_path / 'f'}")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[input-unreadable]")


def test_a_file_that_unpacks_without_end(tmp_path):
    with gzip.open(tmp_path / "b.xplane.pb.gz", "wb") as file:
        file.write(b"\x0a\x0a\x12\x05/host")
        for _ in range(300):
            file.write(bytes(1 << 20))
    done = shell(f"tpuprof analyze {tmp_path / 'b.xplane.pb.gz'}")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[input-too-large]")


def test_debug_after_the_command():
    done = shell("tpuprof analyze nowhere --debug")
    assert "Traceback" in done.stderr
    assert done.stderr.strip().endswith("[input-not-found]")
    assert done.returncode == 2


def test_a_defect_of_ours_is_one_line_and_status_3(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import tpuprof.decode.find as f\ndef broken(path): raise KeyError('boom')\nf.find = broken\n"
    )
    done = shell(f"tpuprof analyze {SAMPLE}", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1
    assert "KeyError" in done.stderr
    assert done.stderr.strip().endswith("[internal-error]")


@pytest.mark.parametrize(("own", "status"), [(7, 7), (0, 3)])
def test_a_defect_of_ours_takes_no_status_from_a_program_that_failed(tmp_path, own, status):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'capture' in sys.argv:\n import tpuprof.capture.validate as v\n"
        " def broken(*given): raise KeyError('boom')\n v.profiles = broken\n"
    )
    program = f"{sys.executable} -c 'raise SystemExit({own})'"
    done = shell(f"tpuprof capture -o {tmp_path / 'run'} -- {program}", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == status
    assert done.stderr.strip().endswith("[internal-error]")


def test_what_if_as_json():
    done = shell(f"tpuprof analyze {SAMPLE} --what-if recompiles-shape --json")
    assert json.loads(done.stdout)["rules"] == ["recompiles-shape"]


@pytest.mark.parametrize(
    "more", [["--base", str(SAMPLE)], ["--why", "--md"], ["--all-ops"], ["--hosts", "2"]]
)
def test_what_if_refuses_what_it_would_not_print(more):
    done = CliRunner().invoke(app, ["analyze", str(SAMPLE), "--what-if", "recompiles-shape", *more])
    assert isinstance(done.exception, TpuprofError)
    assert done.exception.code is Code.USAGE
    assert all(each in done.exception.message for each in more if each.startswith("--"))


@pytest.mark.parametrize(
    ("options", "said"),
    [("--json --md", "--json and --md exclude each other."), ("--what-if ,", "--what-if names no rule.")],
)
def test_options_that_ask_for_nothing_or_for_two_things(options, said):
    done = shell(f"tpuprof analyze {SAMPLE} {options}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tpuprof: {said}")
    assert done.stderr.endswith("[usage]\n")


def test_a_base_run_that_is_gone_is_said_with_the_variable_that_names_it():
    done = shell(f"tpuprof analyze {SAMPLE}", TPUPROF_BASE="no-such-run")
    assert done.stderr.startswith("tpuprof: TPUPROF_BASE: no-such-run: no such file or folder.")
    assert done.stderr.endswith("Without TPUPROF_BASE nothing is compared. [input-not-found]\n")
    done = shell(f"tpuprof analyze {SAMPLE} --base no-such-run")
    assert done.stderr.startswith("tpuprof: no-such-run: no such file or folder.")


def test_history_of_runs_without_proofs_speaks_of_both():
    done = shell(f"tpuprof history {ROOT / 'sample_traces'}")
    assert "there is neither a ledger in it nor a proof" in done.stderr
    assert done.stderr.endswith("[input-no-ledger]\n")


def test_a_bar_is_as_narrow_as_the_terminal():
    lines = shell(f"tpuprof analyze {SAMPLE}", COLUMNS="30", PYTHONIOENCODING="utf-8").stdout.splitlines()
    title = next(at for at, line in enumerate(lines) if "Where a step's time goes" in line)
    assert "█" * 25 in lines[title + 1]
    assert lines[title + 2].split()[1] == "compile"


def test_what_if_leaves_a_base_run_of_the_environment_to_reports():
    wanted = ["analyze", str(SAMPLE), "--what-if", "recompiles-shape"]
    done = CliRunner().invoke(app, wanted, env={"TPUPROF_BASE": "no-such-run"})
    assert (done.exit_code, "with recompiles-shape fixed" in done.stdout) == (0, True)


def test_a_report_does_not_overwrite_unless_forced(tmp_path):
    path = tmp_path / "r.md"
    path.write_text("mine")
    refused = shell(f"tpuprof report {SAMPLE} -o {path}")
    assert refused.returncode == 2
    assert refused.stderr.strip().endswith("[output-exists]")
    assert path.read_text() == "mine"
    assert shell(f"tpuprof report {SAMPLE} -o {path} --force").returncode == 0
    assert path.read_text() != "mine"


def test_shell_completion_is_offered():
    assert "--install-completion" in shell("tpuprof --help").stdout
