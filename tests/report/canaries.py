"""Private values of every kind, and run folders that hold all of them in one place each.

Tokens are put together from parts, so that no scanner takes this file for a leak. None of them is real.
"""

import gzip
import json
import random
import shutil
import string
from base64 import b64encode
from dataclasses import dataclass

from tests.builders import TraceBuilder, op
from tests.report.planted import field
from tpuprof.decode import hlo_pb2
from tpuprof.safe_text import TO_SAFE

_RANDOM = random.Random()
_BASE62 = string.ascii_letters + string.digits


def _of(alphabet, length):
    return "".join(_RANDOM.choice(alphabet) for _ in range(length))


def _base62(length):
    """Random characters with each class in them."""
    return "aB3" + _of(_BASE62, length - 3)


def _hex(length):
    return "a1" + _of("0123456789abcdef", length - 2)


@dataclass(frozen=True)
class Canary:
    """A text as it occurs in the wild, and the parts of it that must not be in any output."""

    kind: str
    text: str
    private: tuple[str, ...]


def _token(kind, prefix, body, around="{}"):
    return Canary(kind, around.format(prefix + body), (body,))


def _tokens():
    yield _token("Hugging Face", "hf_", _base62(34))
    yield _token("GitHub", "gh" + "p_", _base62(36))
    yield _token("GitHub fine-grained", "github_" + "pat_", _base62(60))
    yield _token("GitLab", "gl" + "pat-", _base62(20))
    yield _token("AWS key id", "AK" + "IA", _of(string.ascii_uppercase + "234567", 16))
    yield _token("AWS secret", "", _base62(40), "aws {}")
    yield _token("Google API key", "AI" + "za", _base62(35))
    yield _token("Google access token", "ya" + "29.", _base62(60))
    yield _token("Google refresh token", "1/" + "/0", _base62(40))
    yield _token("Google client secret", "GOC" + "SPX-", _base62(28))
    yield _token("Weights & Biases", "", _hex(40), "wandb {}")
    yield _token("OpenAI", "s" + "k-proj-", _base62(48))
    yield _token("Anthropic", "s" + "k-ant-api03-", _base62(60))
    yield _token("Slack bot", "xo" + "xb-123456789012-", _base62(24))
    yield _token("Slack app", "xa" + "pp-1-A012-3456-", _base62(40))
    yield _token("Slack webhook", "https://hooks." + "slack.com/services/T0AB/B0CD/", _base62(24))
    yield _token("Discord webhook", "https://discord.com/api/" + "webhooks/123456789/", _base62(60))
    yield _token("Stripe", "s" + "k_live_", _base62(24))
    yield _token("Databricks", "da" + "pi", _hex(32))
    yield _token("Docker", "dc" + "kr_pat_", _base62(27))
    yield _token("Groq", "gs" + "k_", _base62(52))
    yield _token("npm", "np" + "m_", _base62(36))
    yield _token("PyPI", "py" + "pi-AgEIcHlwaS5vcmc", _base62(60))
    yield _token("Replicate", "r" + "8_", _base62(37))
    yield _token("NVIDIA", "nv" + "api-", _base62(60))
    yield _token("SendGrid", "S" + "G.", _base62(22) + "." + _base62(43))
    yield _token("Twilio", "S" + "K", _hex(32))
    yield _token("Telegram bot", "123456789:" + "AA", _base62(33))
    yield _token("DigitalOcean", "do" + "p_v1_", _hex(64))
    yield _token("HashiCorp Vault", "hv" + "s.", _base62(24))
    yield _token("Grafana", "gl" + "sa_", _base62(32) + "_" + _hex(8))
    yield _token("Atlassian", "ATA" + "TT3xFfGF0", _base62(60))
    yield _token("xAI", "xa" + "i-", _base62(60))
    yield _token("LangSmith", "lsv2" + "_pt_", _hex(32) + "_" + _hex(10))
    yield _token("Together", "", _hex(64))
    yield _token("Mailchimp", "", _hex(32) + "-us12")
    yield _token("Postman", "PM" + "AK-", _hex(24) + "-" + _hex(34))
    yield _token("Kaggle", "KG" + "AT_", _hex(32))
    yield _token("Azure account key", "AccountKey=", _base62(86) + "==", "EndpointSuffix=core.windows.net;{}")
    yield _token(
        "Azure signature", "sig=", _base62(40) + "%3D", "https://x.blob.core.windows.net/c?sv=2020&{}"
    )
    yield _token("JSON web token", "ey" + "J" + _base62(20) + ".", _base62(40) + "." + _base62(30))
    yield _token("bearer", "", _base62(24), "Authorization: Bearer {}")
    yield _token("upper-case token", "HF_", _base62(34).upper())
    yield _token("unknown random token", "", _base62(32), "value {} end")
    yield _token("password in an address", "", "s3cr" + _base62(10), "https://bob:{}@github.com/x")
    yield _token("password of a flag", "", "closed" + _base62(9).lower(), "--db-password {}")
    yield _token("assigned", "", "open" + _base62(9).lower(), "DB_PASSWORD={}")


def _names():
    yield Canary("e-mail", "mail jo.doe@private-corp.example now", ("jo.doe", "private-corp"))
    yield Canary("e-mail, encoded", "to zoe.roe%40hidden-corp.example now", ("zoe.roe", "hidden-corp"))
    yield Canary(
        "service account",
        "https://www.googleapis.com/robot/v1/metadata/x509/bot-9%40quiet-proj.iam.gserviceaccount.com",
        ("bot-9", "quiet-proj"),
    )
    yield Canary(
        "e-mail of a service account", "sa-7@silent-proj.iam.gserviceaccount.com", ("sa-7", "silent-proj")
    )
    yield Canary("user and host", "login as petra@buildbox9 done", ("petra", "buildbox9"))
    yield Canary("home folder", "/home/ingrid/nets/train.py:3", ("ingrid", "nets"))
    yield Canary("user's folder, relative", "experimental/users/torvald/net/train.py:3", ("torvald",))
    yield Canary("Windows home", r"C:\Users\helga\net\train.py", ("helga",))
    yield Canary("UNC path", r"\\fileserver7\share9\net.py", ("fileserver7", "share9"))
    yield Canary("IPv4", "peer 10.11.12.13:8471", ("10.11.12.13",))
    yield Canary("IPv4 in a host name", "from ip-10-77-66-44 now", ("10-77-66-44",))
    yield Canary("IPv6", "peer [fd00:12::ab:9]:80", ("fd00:12::ab:9",))
    yield Canary("gRPC address", "grpc://trainhost77:8470", ("trainhost77",))
    yield Canary("inner address", "https://dash.inner-corp7.io/runs/3", ("inner-corp7",))
    yield Canary("inner address, port", "http://ci77.org7.net:8080/job/nora77/3", ("org7", "nora77"))
    yield Canary("address of a resolver", "dns:///train78.rows78.dev:9001", ("rows78",))
    yield Canary("share", "smb://vault78/ring78/x", ("vault78", "ring78"))
    yield Canary("share without a scheme", "//vault79/kept79$/x", ("vault79", "kept79"))
    yield Canary("repository", "https://github.com/quietfirm78/hush78repo", ("quietfirm78", "hush78repo"))
    yield Canary(
        "repository by ssh", "git@code.firm77.dev:team77/hush77repo.git", ("firm77", "team77", "hush77repo")
    )
    yield Canary("folder of a mount", "/nfs/team-red77/run.py:2", ("team-red77",))
    yield Canary("user's folder, tilde", "~gunda77/x/train.py", ("gunda77",))
    yield Canary("user and host, with a path", "hilde77@mill77:/data77/x", ("hilde77", "mill77", "data77"))
    yield Canary("GKE node", "gke-tpu-5f6e7d8c-abcd", ("5f6e7d8c",))
    yield Canary("variables of a shell", "HOSTNAME=cedarbox9 USER=gudrun78 x", ("cedarbox9", "gudrun78"))
    yield Canary("internal host", "box3.c.hush-proj.internal", ("box3", "hush-proj"))
    yield Canary("TPU VM", "on t1v-n-1a2b3c4d-w-3 now", ("1a2b3c4d",))
    yield Canary("bucket", "gs://quietbucket/dir7secret/model.pt", ("quietbucket", "dir7secret"))
    yield Canary("bucket, S3", "s3://hushbucket/k7secret/model.pt", ("hushbucket", "k7secret"))
    yield Canary(
        "bucket, host", "https://stillbucket.s3.eu-west-1.amazonaws.com/k8secret", ("stillbucket", "k8secret")
    )
    yield Canary("bucket, ARN", "arn:aws:s3:::mutebucket/x", ("mutebucket",))
    yield Canary("bucket, port", "hdfs://calmnode:8020/ring79/x", ("calmnode", "ring79"))
    yield Canary("account", "arn:aws:iam::998877665544:role/x", ("998877665544",))
    yield Canary("project of an image", "europe-docker.pkg.dev/dim-proj/r/img:1", ("dim-proj",))
    yield Canary("project of an older image", "eu.gcr.io/dusk-proj/img:1", ("dusk-proj",))
    yield Canary("project of a flag", "--gcp_project shade-proj x", ("shade-proj",))
    yield Canary("tracked run", "https://wandb.ai/quiet-corp9/net99/runs/ab1", ("quiet-corp9", "net99"))
    yield Canary("project", "projects/covert-proj/locations/us", ("covert-proj",))
    yield Canary("project of a variable", "GOOGLE_CLOUD_PROJECT=veiled-proj", ("veiled-proj",))


def canaries():
    """One of each kind; the same at every call."""
    _RANDOM.seed(7)
    return [*_tokens(), *_names()]


def hlo(texts, where):
    """A serialized HloProto with the texts in one place."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    module.name = b"SyncTensorsGraph.7"
    computation = module.computations.add(name=b"main", id=1, root_id=1)
    for number, text in enumerate(texts):
        one = computation.instructions.add(name=f"dot.{number}".encode(), opcode=b"dot", id=number + 1)
        raw = text.encode()
        if where == "HLO op name":
            one.metadata.op_name = b"Decoder/" + raw + b"/aten__mm"
        elif where == "HLO source file":
            one.metadata.source_file = raw
        elif where == "base64 in HLO":
            one.backend_config = b'{"body": "' + b64encode(b"ML\xefR\x00" + raw + b"\x00" * 50) + b'"}'
        elif where == "undeclared HLO field":
            one.ParseFromString(one.SerializeToString() + field(137, b"note " + raw))
    return proto.SerializeToString()


def _trace(texts, where):
    built = TraceBuilder()
    if where == "profile error":
        built.space.errors.extend(text.encode() for text in texts)
    host = built.host()
    python = host.line("python")
    for step in range(4):
        python.event("train_step", 1000 * step, 950, _r=1, step_num=step)
        python.event("StepMarker", 1000 * step + 800, 50)
        built.tpu(0).line("XLA Modules").event("SyncTensorsGraph.7(1)", 1000 * step + 500, 300)
        built.tpu(0).line("XLA Ops").event(**op("dot.1", "dot"), start=1000 * step + 500, duration=300)
    for number, text in enumerate(texts):
        at = 1000 + 9 * number
        if where == "annotation":
            python.event(text, at, 5, tpuprof="annotation", traced_ops=3)
        elif where == "event stat":
            python.event("some_event", at, 5, note=text)
        elif where == "sampled stack":
            host.line("tpuprof").event("tpuprof.sample", at, 5, frames=text.translate(TO_SAFE))
        elif where == "thread name":
            host.line(text).event("some_event", at, 5)
        elif where == "scope of an op":
            facts = {**op("dot.1", "dot")["facts"], "tf_op": f"Decoder/{text}/dot"}
            built.tpu(0).line("XLA Ops").event(
                f"%dot.{number + 9} = f32[8]{{0}} dot()", 1500 + number, 1, facts=facts
            )
    programs = built.plane("/host:metadata")
    programs.name_id("SyncTensorsGraph.7(1)", "", {"hlo_proto": hlo(texts, where)})
    return built


PLACES = (
    "argument",
    "variable",
    "warning of the capture",
    "kept text",
    "telemetry",
    "annotation",
    "event stat",
    "sampled stack",
    "thread name",
    "scope of an op",
    "profile error",
    "HLO op name",
    "HLO source file",
    "undeclared HLO field",
    "base64 in HLO",
    "gzipped profile",
    "Chrome JSON",
)


def _chrome(run, texts):
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "XLA Modules"}},
        {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/host:CPU"}},
    ]
    events += [
        {"ph": "X", "pid": 1, "tid": 1, "name": "jit_f(7)", "ts": 100 * n, "dur": 90} for n in range(4)
    ]
    events += [
        {"ph": "X", "pid": 2, "tid": 3, "name": "note", "ts": 110 + n, "dur": 1, "args": {"note": text}}
        for n, text in enumerate(texts)
    ]
    path = run / "plugins" / "profile" / "first" / "worker-0.trace.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode()))
    return run


def run_folder(folder, where):
    """Write a run folder that holds every canary in one place, and nothing private elsewhere."""
    texts = [each.text for each in canaries()]
    run = folder / "run"
    inside = "event stat" if where == "gzipped profile" else where
    if where == "Chrome JSON":
        return _chrome(run, texts)
    path = _trace(texts, inside).write(run / "plugins" / "profile" / "first" / "worker-0.xplane.pb")
    if where == "gzipped profile":
        with gzip.open(path.with_name(path.name + ".gz"), "wb") as file:
            shutil.copyfileobj(path.open("rb"), file)
        path.unlink()
    own = run / "tpuprof"
    own.mkdir(parents=True)
    info = {
        "schema": "tpuprof.run/1",
        "versions": {"torch_xla": "2.9.0"},
        "command_line": ["train.py", *(texts if where == "argument" else [])],
        "environment": {f"TPU_NOTE_{n}": text for n, text in enumerate(texts)} if where == "variable" else {},
        "warnings": texts if where == "warning of the capture" else [],
        "capture": {"name": "first", "steps_captured": 4, "steps_before": 4},
    }
    (own / "run.json").write_text(json.dumps(info), "utf-8")
    row = {
        "step": 1,
        "counters": {},
        "metrics": {},
        "compiles": [{"graphs": 1, "seconds": 0.1, "frames": texts}],
    }
    if where == "telemetry":
        (own / "telemetry.worker-0.0.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    if where == "kept text":
        (own / "metrics.worker-0.0.txt").write_text("\n".join(texts) + "\n", "utf-8")
    return run
