"""A private value of each kind, planted in each place of a run, is in no byte of any output."""

import base64
import gzip
import re
import zipfile
from pathlib import Path

import pytest

from tests.report import canaries
from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.report.as_json import to_json
from tpuprof.safe_text import FROM_SAFE
from tpuprof.share.bundle import write_bundle
from tpuprof.share.redacted_report import redacted, redactor_for

_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4}){16,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def outputs(run, folder):
    """Every output's bytes by name, the bundle's members each, and what is in them as base64 or gzip."""
    report = analyze_run(run)
    found = {}
    for name, render in (("html", render_html), ("md", render_markdown), ("json", to_json)):
        found[name] = render(redacted(report, redactor_for(report))).encode()
    write_bundle(folder / "x.zip", report, run, redactor_for(report))
    with zipfile.ZipFile(folder / "x.zip") as bundle:
        found |= {name: name.encode() + bundle.read(name) for name in bundle.namelist()}
    return {name: _opened(data) for name, data in found.items()}


def _opened(data):
    _, magic, packed = data.partition(b"\x1f\x8b")
    if magic:
        data += gzip.decompress(magic + packed)
    return data + b"".join(base64.b64decode(each) for each in _BASE64.findall(data))


def left_in_clear(found):
    """(kind, part, output) of every private part that an output holds, in any case of letters."""
    parts = [(canary.kind, part) for canary in canaries.canaries() for part in canary.private]
    left = []
    for name, data in found.items():
        lowered, text = data.lower(), data.decode("utf-8", "replace").translate(FROM_SAFE).lower()
        left += [
            (kind, part, name)
            for kind, part in parts
            if part.lower().encode() in lowered or part.lower() in text
        ]
    return left


@pytest.mark.parametrize("place", canaries.PLACES)
def test_no_canary_is_in_any_output(place, tmp_path):
    run = canaries.run_folder(tmp_path, place)
    planted = b"".join(_opened(path.read_bytes()) for path in run.rglob("*") if path.is_file())
    escaped = planted.replace(b"\\\\", b"\\")
    escaped += planted.decode("utf-8", "replace").translate(FROM_SAFE).encode()
    missing = [
        each.kind for each in canaries.canaries() for part in each.private if part.encode() not in escaped
    ]
    assert missing == []
    assert left_in_clear(outputs(run, tmp_path)) == []


@pytest.mark.parametrize(
    "host", ["petra-box.corp", "ab", "xyz", "BuildBox9", "ip-10-77-66-44", "node7.c.hush-proj.internal"]
)
def test_a_host_in_file_names_is_in_no_output(host, tmp_path):
    run = canaries.run_folder(tmp_path, "nothing")
    profile = next(run.rglob("*.xplane.pb"))
    profile.rename(profile.with_name(f"{host}.xplane.pb"))
    for kind, text in (("telemetry", '{"step": 1}'), ("metrics", "Counter: x"), ("pt_xla_debug", "x")):
        suffix = "jsonl" if kind == "telemetry" else "txt"
        (run / "tpuprof" / f"{kind}.{host}.0.{suffix}").write_text(text, "utf-8")
    word = re.compile(rb"(?<![a-z0-9])" + re.escape(host.lower().encode()) + rb"(?![a-z0-9])")
    assert [name for name, data in outputs(run, tmp_path).items() if word.search(data.lower())] == []


@pytest.mark.parametrize(
    "name",
    [
        "_ZN3xla3gpu12IrEmitterUnnested25EmitTargetElementLoopInThunkE",
        "Sm90Tma3xWgmma128x256Kernel_bf16_v2",
        "broadcast_multiply_reduce_fusion.123.remat5.1.clone",
        "SyncTensorsGraphInternalExtractIRAndPrepareXlaData",
        "jit_train_step_9646411105960254074",
        "ThreadpoolListenerStartRegion2025Kernel",
        "BertForSequenceClassification2LayerNorm12",
    ],
)
def test_names_of_ops_and_kernels_are_not_keys(name):
    from tpuprof.share.token_forms import looks_random

    assert not looks_random(name)


def test_most_random_words_are_recognised():
    import random
    import string

    from tpuprof.share.token_forms import looks_random

    source = random.Random(3)
    words = ["".join(source.choices(string.ascii_letters + string.digits, k=32)) for _ in range(2000)]
    assert sum(map(looks_random, words)) >= 0.85 * len(words)


def test_the_manifest_says_what_was_looked_for(tmp_path):
    import json

    found = outputs(canaries.run_folder(tmp_path, "nothing"), tmp_path)
    manifest = json.loads(found["manifest.json"].removeprefix(b"manifest.json"))
    assert manifest["looked_for"] == ["secret", "email", "bucket", "path", "ip", "host", "project", "user"]


def test_the_documentation_lists_every_kind_and_place():
    page = (Path(__file__).parents[2] / "docs" / "reports.md").read_text("utf-8")
    wanted = [*(each.kind for each in canaries.canaries()), *canaries.PLACES]
    assert [each for each in wanted if each not in page] == []
