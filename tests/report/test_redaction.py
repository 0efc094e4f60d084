"""No private value of a run is in anything that is sent."""

import base64
import collections.abc
import dataclasses
import json
import random
import re
import subprocess
import sys
import zipfile

import pytest

from tests.report import planted, reports
from tests.report.one_by_one import redact_hlo, redact_xspace
from tpuprof.analysis.analyze import analyze_run
from tpuprof.report.schema import OpRow
from tpuprof.share import learned, replacing, sensitive, signs
from tpuprof.share.command_line import without_secrets
from tpuprof.share.redact import Redactor
from tpuprof.share.redact_proto import blot
from tpuprof.share.redacted_report import redactor_for


def report(*args, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "report", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done


def leaks(data):
    """Forbidden values in some bytes, and in bytes written as base64 inside them."""
    inner = b"".join(
        base64.b64decode(found)
        for found in re.findall(rb"(?:[A-Za-z0-9+/]{4}){16,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", data)
    )
    return [value for value in planted.FORBIDDEN if value.encode().lower() in (data + inner).lower()]


def members(path):
    with zipfile.ZipFile(path) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return planted.run_folder(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def outputs(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sent")
    for suffix in ("html", "md", "json", "zip"):
        report(run, "-o", folder / f"r.{suffix}")
    return folder


def test_the_values_are_in_the_run_to_begin_with(run):
    data = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    names = "".join(str(path) for path in run.rglob("*"))
    text = json.dumps(analyze_run(run).to_dict())
    assert leaks(data) == list(planted.FORBIDDEN)
    assert planted.USER in names
    assert planted.HOST in names
    assert leaks(text.encode())


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_no_private_value_is_in_a_report(outputs, suffix):
    data = (outputs / f"r.{suffix}").read_bytes()
    assert leaks(data) == []
    assert [kept for kept in planted.KEPT[:2] if kept.encode() not in data] == []


def test_no_private_value_is_in_any_byte_of_the_bundle(outputs):
    found = members(outputs / "r.zip")
    for name, data in found.items():
        assert leaks(data) == [], name
        assert leaks(name.encode()) == []
    assert leaks((outputs / "r.zip").read_bytes()) == []
    assert any(name.endswith(".xplane.pb") for name in found)
    assert any(name.startswith("graphs/") for name in found)
    profile = next(data for name, data in found.items() if name.endswith(".xplane.pb"))
    assert [kept for kept in planted.KEPT if kept.encode() not in profile] == []


def test_pseudonyms_are_the_same_in_every_output(outputs):
    own = json.loads((outputs / "r.json").read_bytes())
    bundled = json.loads(members(outputs / "r.zip")["report.json"])
    own.pop("redactions"), bundled.pop("redactions")
    assert own == bundled


def test_the_manifest_says_what_kinds_were_replaced_and_how_often(outputs):
    manifest = json.loads(members(outputs / "r.zip")["manifest.json"])
    assert manifest["redacted"] is True
    assert set(manifest["replaced"]) == {"secret", "email", "bucket", "path", "ip", "host", "user"} | (
        set(manifest["replaced"]) & {"project"}
    )
    assert all(count > 0 for count in manifest["replaced"].values())
    assert set(manifest["members"]) == set(members(outputs / "r.zip")) - {"manifest.json"}


def test_the_bundle_is_read_again_and_its_profile_says_the_same(outputs, run, tmp_path):
    with zipfile.ZipFile(outputs / "r.zip") as bundle:
        bundle.extractall(tmp_path)
    again = analyze_run(tmp_path / "run")
    before = analyze_run(run)
    kept = {step.index: step for step in before.steps.per_step}
    assert again.steps.per_step
    for step in again.steps.per_step[:-1]:
        assert step.wall_ms == kept[step.index].wall_ms
    assert {row.graph_hash for row in again.compiles} <= {row.graph_hash for row in before.compiles}


def test_no_redact_keeps_everything(run, tmp_path):
    report(run, "-o", tmp_path / "r.json", "--no-redact")
    assert planted.TOKEN in (tmp_path / "r.json").read_text("utf-8")
    assert json.loads((tmp_path / "r.json").read_bytes())["redactions"] is None


def test_show_redactions_lists_values_and_pseudonyms(run):
    shown = report(run, "--show-redactions").stdout
    assert planted.TOKEN in shown.replace("\n", "")
    assert "secret-1" in shown


TEXTS = [
    ("/home/ann/proj/train.py:12", "path-1/train.py:12"),
    ("-I/home/ann/include/x.h", "-Ipath-1/x.h"),
    ("/home/ann", "path-1"),
    ("/Users/ann/x/y.py", "path-1/y.py"),
    (r"C:\Users\ann\x\train.py:3", "path-1/train.py:3"),
    ("~/x/train.py", "path-1/train.py"),
    ("/opt/v/lib/python3.11/site-packages/torch/nn/linear.py:3", "path-1/site-packages/torch/nn/linear.py:3"),
    ("/opt/v/lib/python3.11/site-packages/acme_models/net.py", "path-1/net.py"),
    ("a=/w/x:/w/y/z.so", "a=path-1:path-2/z.so"),
    ("gs://buck/a/b/model.pt", "gs://bucket-1/path-1/model.pt"),
    ("s3://buck", "s3://bucket-1"),
    ("https://buck.s3.us-east-1.amazonaws.com/k", "https://bucket-1.s3.us-east-1.amazonaws.com/path-1"),
    ("peer 10.0.0.3:80", "peer ip-1:80"),
    ("[2001:db8::17]:80", "[ip-1]:80"),
    ("me@corp.example.com", "email-1"),
    ("export WANDB_API_KEY=abcdefgh12", "export WANDB_API_KEY=secret-1"),
    ("train --token abcdefgh12 --x 1", "train --token secret-1 --x 1"),
    ('{"password": "s3cr3t!"}', '{"password": "secret-1"}'),
    ("https://ann:pw123456@git.corp.internal/x", "https://secret-1@host-1/path-1"),
    ("http://ci.rows.net:80/job/net/3?a=b", "http://host-1:80/path-1?a=b"),
    ("http://ci.rows.net/a/log.txt", "http://host-1/path-1/log.txt"),
    ("http://ci.rows.net/log.txt", "http://host-1/log.txt"),
    ("https://github.com/pytorch/xla/issues/3", "https://github.com/pytorch/xla/issues/3"),
    ("TPU_WORKER_HOSTNAMES=ann-1,ann-2:84 SERVER=1", "TPU_WORKER_HOSTNAMES=host-1,host-2:84 SERVER=1"),
    ("USER=root LOGNAME=annabel", "USER=root LOGNAME=user-1"),
    ("PJRT_DEVICE=TPU HOST_BOUNDS=1,1,1", "PJRT_DEVICE=TPU HOST_BOUNDS=1,1,1"),
    ("Bearer abcdefgh.ijkl", "Bearer secret-1"),
    ("AKIAIOSFODNN7EXAMPLE", "secret-1"),
    ("t1v-n-9eb622fc-w-0", "host-1"),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=[text for text, _ in TEXTS])
def test_what_is_private_is_replaced_and_the_rest_stays(text, expected):
    redactor = Redactor()
    redactor.learn(text)
    assert redactor.text(text) == expected
    assert redactor.text(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/device:TPU:0",
        "/host:CPU",
        "SyncTensorsGraph.66628(14940262714490726846)",
        "jit(f)/jit(main)/transpose(jvp(Model))/dot_general",
        "Decoder@backward/layers.0@backward",
        "%create-token.3 = token[] after-all()",
        "ThreadpoolListener::StartRegion",
        "tensorflow::profiler::TraceMe",
        "12:34:56",
        "libtpu 0.0.21, jax 0.7.1",
        "127.0.0.1:8471",
        "472e455bfebf1e137918e5536580014a",
        "/usr/lib/python3/x.py",
        "max_tokens=4096 --num_tokens 512",
        "1.2 GB/s and 3.4 GB/s",
        "replica_groups={{0,1},{2,3}}",
        "f32[8,128]{1,0:T(8,128)S(1)}",
    ],
)
def test_what_is_not_private_stays(text):
    redactor = Redactor()
    redactor.learn(text)
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train.py", "--hf-token", "correct-horse"], ["train.py", "--hf-token", "secret-1"]),
        (["train.py", "--wandb_key=correct-horse"], ["train.py", "--wandb_key=secret-1"]),
        (["-c", f"login('{planted.TOKEN}')"], ["-c", "login('secret-1')"]),
        (["https://max:correct-horse@git.corp/x"], ["https://secret-1@git.corp/x"]),
        # Paths, machines and numbers say what ran.
        (["/home/max/train.py", "--out", "gs://bucket/x", "--max-token", "512"], None),
    ],
)
def test_of_a_command_line_only_keys_are_replaced(words, expected):
    assert without_secrets(words) == (expected or words)


def test_a_value_learnt_in_one_place_is_replaced_everywhere():
    redactor = Redactor()
    redactor.learn({"environment": {"MY_TOKEN": "correct-horse"}, "host": "box9"})
    assert redactor.text("layer correct-horse on box9-p3") == "layer secret-1 on host-1-p3"


def test_a_short_or_everyday_name_does_not_tear_op_names_apart():
    redactor = Redactor()
    redactor.learn({"host": "vm", "frame": "/home/max/train.py"})
    assert redactor.text("reduce_max.3 vmap") == "reduce_max.3 vmap"
    assert redactor.text("plugins/profile/x/vm.xplane.pb") == "plugins/profile/x/host-1.xplane.pb"
    assert redactor.text("vm-p0") == "host-1-p0"


def test_bytes_written_as_base64_are_looked_into():
    kernel = base64.b64encode(b"ML\xefR\x00kernel.py\x00/home/ann/proj/kernel.py\x00" + bytes(30)).decode()
    shown = Redactor().text(f'{{"body": "{kernel}"}}')
    inside = base64.b64decode(json.loads(shown)["body"])
    assert b"/home/ann" not in inside
    assert inside.startswith(b"ML\xefR\x00kernel.py\x00xxx")
    assert len(shown) == len(kernel) + 12


def test_the_same_value_has_the_same_pseudonym_and_counts():
    redactor = Redactor()
    assert redactor.text("10.0.0.1 10.0.0.2 10.0.0.1") == "ip-1 ip-2 ip-1"
    assert redactor.counts_by_kind() == {"ip": 3}


def test_unchanged_messages_are_the_same_bytes(samples):
    data = next((samples / "predicted_decoder_loop").rglob("*.xplane.pb")).read_bytes()
    assert redact_xspace(data, lambda text: text) == data


def test_fields_nobody_declares_are_redacted_and_survive():
    redactor = Redactor()
    redactor.learn(planted.EVERYTHING)
    redactor.learn({"password": planted.PASSWORD})
    data = redact_hlo(planted.hlo(), redactor.text)
    assert leaks(data) == []
    from tpuprof.decode import hlo_pb2

    module = hlo_pb2.HloProto.FromString(data).hlo_module
    assert module.computations[0].instructions[0].metadata.source_line == 12
    assert b"path-" in module.computations[0].instructions[0].metadata.source_file
    assert b"note" in data


def test_what_is_left_over_is_blotted_out_without_changing_lengths():
    assert blot(b"\x0a\x07planted", ["planted"]) == (b"\x0a\x07xxxxxxx", 1)


@pytest.mark.parametrize("option", ["--md", "--json", None])
def test_a_comparison_is_redacted_too(run, samples, option):
    def diff(*more):
        command = [sys.executable, "-m", "tpuprof", "diff", run, samples / "recompile_shapes", *more]
        return subprocess.run(
            [str(each) for each in command], capture_output=True, timeout=120, check=False
        ).stdout

    options = [option] if option else []
    assert leaks(diff(*options)) == []
    assert planted.PASSWORD.encode() in diff(*options, "--no-redact").replace(b"\n", b"")


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/pytorch/xla/issues/1234",
        "huggingface.co/meta-llama/Llama-3-8B",
        "//tensorflow/core:lib",
        "//third_party/py/jax:x",
        "a = b // c / d",
        "x//2/y",
        "Decoder/Attention/transpose(jvp(f))/dot",
        "layers/Attention@backward/add",
        "node_modules/@azure/x/y.js",
        "file:///usr/lib/x.py",
        "train_step/--no-token",
        "github.com/user-1/project-1",
        "git@github.com:user-1/project-1",
        "//host-1/path-1/x",
    ],
)
def test_what_looks_like_a_share_a_repository_or_a_login_stays(text):
    redactor = Redactor()
    redactor.learn([text, "tensorflow is called by pytorch"])
    assert redactor.text(text) == text
    assert redactor.text("tensorflow is called by pytorch") == "tensorflow is called by pytorch"


def test_a_login_behind_a_slash_teaches_nothing():
    """`name@word` in a path may be a package and its version."""
    redactor = Redactor()
    redactor.learn("modules/parser@latest/x")
    assert redactor.text("the latest parser") == "the latest parser"
    redactor.learn("Decoder/berta@mill77:/x")
    assert redactor.text("berta on mill77") == "user-1 on host-1"


def test_a_user_of_a_variable_in_a_scope():
    assert Redactor().text("Decoder/USER=gudrun78/aten__mm") == "Decoder/USER=user-1/aten__mm"


PIECES = [
    "users", "home", "projects", "project_id", "gcr.io", "github.com", "huggingface.co", "bearer", "token", "secret", "api_key",
    "arn", "aws", "wandb.ai", "s3", "amazonaws.com", "storage.googleapis.com", "http", "git", "docker.pkg.dev", "iam", "internal",
    "t1v-n-0a1b2c3d-w-0", "gke-pool-0a1b2c3d-x1y2", "10.1.2.3", "alice", "workstation-7", "AKIAIOSFODNN7EXAMPLE", "fusion", "12",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "dGhpcyBpcyBub3QgYSBrZXk", "hooks.slack.com", "accountkey", "sig", "C", "USER",
]  # fmt: skip


def words():
    """Texts of one word each, made of what private values and their places are made of."""
    rng = random.Random(5)
    return [
        "".join(rng.choice(["", ".", "-", "_", ".."]) + rng.choice(PIECES) for _ in range(rng.randint(1, 5)))
        for _ in range(3000)
    ]


def test_what_is_not_looked_for_in_words_is_not_there():
    assert len(signs.NOT_IN_WORDS) > 20
    assert all(sensitive.is_word(text) for text in words())
    assert [text for text in words() for pattern in signs.NOT_IN_WORDS if pattern.search(text)] == []


@pytest.mark.parametrize("learnt", [False, True])
def test_words_come_out_as_if_all_were_looked_for(learnt, monkeypatch):
    def redacted():
        redactor = Redactor()
        if learnt:
            redactor.learn("alice@workstation-7:/home/alice/x.py")
        for text in words():
            redactor.learn(text)
        return [redactor.text(text) for text in words()], redactor.replacements()

    quick = redacted()
    monkeypatch.setattr(replacing, "NOT_IN_WORDS", frozenset())
    monkeypatch.setattr(learned, "LEARNT_FROM_WORDS", learned.LEARNT)
    assert redacted() == quick
    assert any(new != old for new, old in zip(quick[0], words(), strict=True))


def test_every_text_of_an_op_is_learnt_from():
    """What a person is called stands in one field of one op alone, and is replaced wherever else it is."""
    names = {each.name: each.type for each in dataclasses.fields(OpRow)}
    texts = {name for name, kind in names.items() if kind == "str"}
    others = {name for name, kind in names.items() if "str" in kind} - texts
    assert others == {"host_names"}
    for name in (*texts, "host_names"):
        found = "/home/alice/x"
        row = OpRow("fusion.1", "", "compute", "step", 1, 1.0, 1.0, None, None, "", "")
        row = dataclasses.replace(row, **{name: [found] if name == "host_names" else found})
        redactor = redactor_for(dataclasses.replace(reports.report(), ops=[row]))
        assert redactor.text("alice") == "user-1", name


def test_a_list_of_another_type_is_redacted_too():
    """What holds texts must not get past because it is no list."""

    class Rows(collections.abc.Sequence):
        def __getitem__(self, at):
            return ["/home/alice/train.py", "fusion.1"][at]

        def __len__(self):
            return 2

    redactor = Redactor()
    redactor.learn(Rows())
    assert redactor.value(Rows()) == ["path-1/train.py", "fusion.1"]
    assert redactor.text("alice") == "user-1"
