"""A run folder with a private value planted in every place a run folder has."""

import json
from base64 import b64encode

from tests.builders import TraceBuilder, op
from tpuprof.decode import hlo_pb2

USER = "mallory"
HOST = "trainbox-7"
FULL_HOST = f"{HOST}.c.acme-research.internal"
HOME = f"/home/{USER}"
MODEL = f"{HOME}/secret_project/model.py"
WORK = ["/mnt/disks/nda-client/run", "7"][0]
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
WANDB = "0123456789abcdef0123456789abcdef01234567"
PASSWORD = "hunter2hunter2"
BEARER = "Zm9vYmFyYmF6cXV4MTIzNDU2"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAplanted\n-----END RSA PRIVATE KEY-----"
BUCKET = "acme-ckpts"
IP4 = "10.23.45.67"
IP6 = "fe80::1ff:fe23:4567:890a"
EMAIL = "mal.lory@acme.example"

# No byte of any output may hold one of these.
FORBIDDEN = (
    USER,
    HOST,
    "acme-research",
    "secret_project",
    "nda-client",
    TOKEN,
    AWS,
    WANDB,
    PASSWORD,
    BEARER,
    "MIIEowIBAAKCAQEAplanted",
    BUCKET,
    "llama-secret-run",
    IP4,
    IP6,
    EMAIL,
)
# What a finding stays useful by.
KEPT = ("model.py", "Decoder", "SyncTensorsGraph")

EVERYTHING = (
    f"{MODEL}:12 {TOKEN} {AWS} {WANDB} {PASSWORD} Bearer {BEARER} gs://{BUCKET}/llama-secret-run/ckpt.pt "
    f"{IP4} {IP6} {EMAIL} {FULL_HOST} {HOST} {WORK}/data.bin {USER} {KEY}"
)


def field(number, payload):
    """A length-delimited protobuf field, for what our own descriptors leave out."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def hlo():
    """A serialized HloProto with the values in names, metadata, configs, frontend attributes and literals."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    module.name = b"SyncTensorsGraph.7"
    module.stack_frame_index.file_names.append(MODEL.encode())
    module.stack_frame_index.function_names.append(f"{USER}_loss".encode())
    computation = module.computations.add(name=b"main", id=1, root_id=1)
    instruction = computation.instructions.add(name=b"dot.1", opcode=b"dot", id=1)
    instruction.metadata.op_name = f"Decoder/{EVERYTHING}/aten__mm".encode()
    instruction.metadata.source_file = MODEL.encode()
    instruction.metadata.source_line = 12
    instruction.backend_config = json.dumps({"api_key": PASSWORD, "note": EVERYTHING}).encode()
    instruction.backend_config += b64encode(
        b"ML\xefR\x00loc\x00" + EVERYTHING.encode() + b"\x00" + MODEL.encode() + b"\x00" * 40
    )
    instruction.custom_call_target = f"{USER}_kernel".encode()
    other = computation.instructions.add(name=b"dot.2", opcode=b"dot", id=2)
    other.metadata.op_name = f"Decoder/{HOST}".encode()
    attributes = b"".join(
        field(1, field(1, b"note") + field(2, each.encode())) for each in (EVERYTHING, USER, MODEL)
    )
    extra = (
        field(136, attributes)
        + field(137, f"plain {EVERYTHING}".encode())
        + field(138, b"\x01\x02" + EVERYTHING.encode())
    )
    extra += field(150, EVERYTHING.encode())
    raw = other.SerializeToString() + extra
    other.ParseFromString(raw)
    return proto.SerializeToString()


def trace():
    built = TraceBuilder()
    built.space.hostnames.append(FULL_HOST.encode())
    built.space.errors.append(f"cannot write gs://{BUCKET}/llama-secret-run/x: denied for {EMAIL}".encode())
    built.space.warnings.append(EVERYTHING.encode())
    host = built.host()
    host.stat(task=EVERYTHING, raw=EVERYTHING.encode())
    python = host.line("python")
    for number in range(6):
        python.event("train_step", 1000 * number, 950, _r=1, step_num=number)
        python.event(
            f"annotated {TOKEN} {MODEL}", 1000 * number + 10, 200, tpuprof="annotation", traced_ops=3
        )
        python.event(USER, 1000 * number + 250, 50, tpuprof="annotation", traced_ops=0)
        python.event(
            "tpuprof.host_read",
            1000 * number + 400,
            90,
            tpuprof="host_read",
            call="item",
            source=f"{MODEL}:33",
        )
        python.event("StepMarker", 1000 * number + 800, 50)
    python.event("XLAGraphExecutor::Compile", 3100, 300, graph_hash="abc123", note=EVERYTHING)
    host.line(f"thread of {USER}").event(EVERYTHING, 0, 5)
    host.message.stat_metadata[99].id = 99
    host.message.stat_metadata[99].name = EVERYTHING.encode()
    host.message.stat_metadata[99].MergeFromString(field(3, EVERYTHING.encode()))
    python.message.events[0].stats.add(metadata_id=host._stat_id("by_reference"), ref_value=99)
    device = built.tpu(0)
    for number in range(6):
        program = "SyncTensorsGraph.7(1)" if number < 3 else "SyncTensorsGraph.8(2)"
        device.line("XLA Modules").event(program, 1000 * number + 500, 300)
        facts = {
            **op("dot.1", "dot")["facts"],
            "source": f"{MODEL}:12",
            "tf_op": f"Decoder/{USER}/dot",
            "note": EVERYTHING,
        }
        device.line("XLA Ops").event(
            f"%dot.1 = f32[8]{{0}} dot({MODEL})", 1000 * number + 500, 300, display="dot.1", facts=facts
        )
    metadata = built.plane("/host:metadata")
    for program in ("SyncTensorsGraph.7(1)", "SyncTensorsGraph.8(2)"):
        metadata.name_id(program, "", {"hlo_proto": hlo()})
    number = metadata.name_id(f"{USER}(3)", "", {})
    metadata.message.event_metadata[number].metadata = hlo()
    built.space.MergeFromString(field(77, EVERYTHING.encode()) + field(78, field(1, EVERYTHING.encode())))
    return built


def run_folder(folder):
    """Write the run folder; returns its path, which is private itself."""
    run = folder / USER / "secret_project" / "run"
    trace().write(run / "plugins" / "profile" / f"try-of-{USER}" / f"{HOST}.xplane.pb")
    own = run / "tpuprof"
    (own / "graphs").mkdir(parents=True)
    (own / "graphs" / "abc123.hlo.pb").write_bytes(hlo())
    info = {
        "schema": "tpuprof.run/1",
        "versions": {"torch": "2.9.0", "torch_xla": "2.9.0", "libtpu": "0.0.21"},
        "host": FULL_HOST,
        "device": {"type": "TPU", "global_count": 1, "local_count": 1},
        "command_line": [
            MODEL,
            "--hf-token",
            PASSWORD,
            f"--wandb_key={WANDB}",
            "--data",
            f"{WORK}/data.bin",
            f"--mail={EMAIL}",
        ],
        "environment": {
            "XLA_FLAGS": f"--xla_dump_to=gs://{BUCKET}/llama-secret-run/dump --xla_log={MODEL}",
            "LIBTPU_INIT_ARGS": f"--log_dir={HOME}/logs --peer={IP4}:8471",
            "TPU_WORKER_HOSTNAMES": f"{HOST},{FULL_HOST}",
            "TPU_SERVICE_PASSWORD": PASSWORD,
            "XLA_AWS_SECRET_ACCESS_KEY": AWS,
            "PT_XLA_NOTE": f"Authorization: Bearer {BEARER}",
            "TPU_NOTE": EVERYTHING,
        },
        "profile": f"plugins/profile/try-of-{USER}/{HOST}.xplane.pb",
        "graphs": {"SyncTensorsGraph.7(1)": "abc123.hlo.pb"},
        "capture": {"name": f"try-of-{USER}", "steps_captured": 6, "steps_before": 4, "backend": "InProcess"},
        "warnings": [EVERYTHING],
    }
    (own / "run.json").write_text(json.dumps(info), "utf-8")
    (own / f"run.{HOST}.123.json").write_text(json.dumps(info), "utf-8")
    row = {
        "step": 3,
        "counters": {f"aten::{USER}": 1, "UncachedCompile": 1},
        "metrics": {EVERYTHING: [1, 2.0]},
        "compiles": [{"graphs": 1, "seconds": 0.3, "frames": [f"train ({MODEL}:40)", EVERYTHING]}],
    }
    (own / f"telemetry.{HOST}.0.jsonl").write_text(json.dumps(row) + "\n{damaged\n", "utf-8")
    (own / f"metrics.{HOST}.0.txt").write_text(f"Counter: aten::nonzero\n  Value: 3\n{EVERYTHING}\n", "utf-8")
    debug = f"Compilation Analysis:   step ({MODEL}:12)\nCompilation Analysis: {EVERYTHING}\n"
    (own / f"pt_xla_debug.{HOST}.0.txt").write_text(debug, "utf-8")
    return run
