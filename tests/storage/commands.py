"""What commands must do with a run at a URL, whatever the store."""

import zipfile
from pathlib import Path

from typer.testing import CliRunner

from tpuprof.cli.main import app


def assert_commands_take(url: str, sample: Path, folder: Path) -> None:
    """Run commands on the copy of a sample at a URL; reports go into the folder."""
    budget = folder / "tpuprof.toml"
    budget.write_text("[budget]\nstep_time_median = { max = 1e9 }\n", "utf-8")
    for arguments in (
        ["report", url, "-o", str(folder / "r.html")],
        ["report", url, "-o", str(folder / "r.zip")],
        ["diff", str(sample), url],
        ["check", url, "-b", str(budget)],
        ["analyze", url, "--what-if", "input-starved"],
    ):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code in (0, 4), (arguments, done.output, done.exception)
        assert "left out" not in done.output
        assert "not a profile" not in done.output
    assert (folder / "r.html").stat().st_size
    with zipfile.ZipFile(folder / "r.zip") as bundle:
        assert [name for name in bundle.namelist() if name.endswith(".xplane.pb")]
    assert "/dev/shm" not in (folder / "r.html").read_text("utf-8")
