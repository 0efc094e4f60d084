"""The arguments and options of `tpuprof preflight`, in the order of its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Script = Annotated[
    str | None,
    typer.Argument(
        help="The training script, its arguments after `--`; or a program: StableHLO, HLO, an XLA dump, a capture.",
        show_default=False,
    ),
]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments of the script.", show_default=False)]
Module = Annotated[
    str | None, typer.Option("--module", "-m", help="A module in place of a script, as with `python -m`.")
]
Python = Annotated[
    str | None,
    typer.Option(
        help="The Python that runs the script, where that is another environment's (TorchTPU needs its own).",
        show_default="this one; for a script that uses TorchTPU the first one found that has it",
    ),
]
Slices = Annotated[
    list[str] | None,
    typer.Option(
        "--tpu", help="Slice to compile for, as v5e-4; repeatable.", show_default="v5e-4, v5p-8, v6e-4"
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the predicted runs, one for each target.")]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", help="NAME=VALUE for the script and the compiler; repeatable."),
]
Compare = Annotated[str | None, typer.Option(help="A second script to compare with.")]
CompareArgs = Annotated[str | None, typer.Option(help="Arguments of the second variant, in one quoted text.")]
CompareEnv = Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the second variant; repeatable.")]
Sweep = Annotated[str | None, typer.Option(help="NAME=VALUE,VALUE...: find the largest value that fits.")]
Search = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE,VALUE... of the script, with compiler flags; auto: what is found by itself.",
        show_default=False,
    ),
]
SearchCompiles = Annotated[
    int, typer.Option(min=2, help="Compiles that a search may take for each slice; cached ones are free.")
]
Price = Annotated[
    list[str] | None,
    typer.Option(help="CHIP=USD[,...] per chip and hour, as v5e=1.2: compare slices by money; repeatable."),
]
Samples = Annotated[float | None, typer.Option(min=0.0, help="Samples that one step trains, on all devices.")]
Tokens = Annotated[float | None, typer.Option(min=0.0, help="Tokens that one step trains, on all devices.")]
AllGraphs = Annotated[
    bool, typer.Option("--all-graphs", help="Compile every graph, not the steady step alone.")
]
RealWeights = Annotated[
    bool, typer.Option("--real-weights", help="Make the model's weights for real while tracing.")
]
Network = Annotated[
    bool,
    typer.Option("--network", help="Let the script connect to other machines (to download a model)."),
]
Workers = Annotated[
    int, typer.Option(min=1, help="Compiles at once; each uses all cores for part of its time.")
]
TimeLimit = Annotated[float, typer.Option(help="Seconds a compile may take.")]
ScriptTimeLimit = Annotated[float, typer.Option(help="Seconds the script may take to reach its steps.")]
MemoryLimit = Annotated[float, typer.Option(help="GiB of memory a compile may take.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Compile again what was compiled before.")]
