"""Asks running programs for a profile of themselves over the profiler's gRPC service.

Any program answers that called `tpuprof.start_server`, torch_xla's `xp.start_server` or JAX's
`jax.profiler.start_server`. The server writes the profile itself, on its own machine: so the run folder must
be one that both machines see.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.run_folder import profile_name
from tpuprof.units import MS_PER_S

_METHOD = "/tensorflow.ProfilerService/Profile"
# Profiles pass gRPC's usual 4 MB by far; -1 lifts the limit.
_UNLIMITED = -1
# Beyond the recording itself the server collects and serialises, which takes long for big profiles (seconds).
COLLECT_SECONDS = 120.0
CONNECT_SECONDS = 10.0
_HOST_LEVEL = 2
_DEVICE_LEVEL = 1
_OPTIONS_VERSION = 1


@dataclass(frozen=True)
class Target:
    """Where a server is to write: folder `root`/`session`, in a file named after `host`."""

    root: Path
    session: str
    host: str

    @property
    def file(self) -> Path:
        """The file the server writes."""
        return self.root / self.session / profile_name(self.host)


def host_of(address: str, among: list[str]) -> str:
    """A file name for an address: its host, with the port where several processes of one host are asked."""
    host, _, port = address.rpartition(":")
    same = [each for each in among if each.rpartition(":")[0] == host]
    return f"{host}_{port}" if len(same) > 1 else host


def profile_host(
    address: str, seconds: float, target: Target, asked: Callable[[], None] = lambda: None
) -> Path:
    """Record `seconds` of one process; returns the file its server wrote. `asked` is called once it was asked to.

    Raises `TpuprofError` where it cannot be reached, recorded nothing, or wrote where we cannot see it.
    """
    import grpc

    from tpuprof.capture import profiler_service_pb2 as messages

    options = [("grpc.max_receive_message_length", _UNLIMITED), ("grpc.max_send_message_length", _UNLIMITED)]
    with grpc.insecure_channel(address, options=options) as channel:
        _connect(grpc, channel, address)
        call: Any = channel.unary_unary(
            _METHOD,
            request_serializer=messages.ProfileRequest.SerializeToString,
            response_deserializer=messages.ProfileResponse.FromString,
        )
        try:
            pending = call.future(_request(messages, seconds, target), timeout=seconds + COLLECT_SECONDS)
            asked()
            response = pending.result()
        except grpc.RpcError as error:
            raise _failed(address, error) from error
    return _written(address, bool(response.empty_trace), target)


def profile_hosts(
    addresses: list[str], seconds: float, root: Path, session: str
) -> tuple[dict[str, Path], list[TpuprofError]]:
    """Record all processes at once; files by address, and the errors of those that failed."""
    files: dict[str, Path] = {}
    errors: list[TpuprofError] = []
    with ThreadPoolExecutor(max_workers=len(addresses)) as pool:
        jobs = {
            address: pool.submit(
                profile_host, address, seconds, Target(root, session, host_of(address, addresses))
            )
            for address in addresses
        }
        for address, job in jobs.items():
            try:
                files[address] = job.result()
            except TpuprofError as error:
                errors.append(error)
    return files, errors


def _connect(grpc: Any, channel: Any, address: str) -> None:
    try:
        grpc.channel_ready_future(channel).result(timeout=CONNECT_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise TpuprofError(
            Code.CAPTURE_CONNECT,
            f"{address}: no profiler server answered within {CONNECT_SECONDS:.0f} s.",
            "Call tpuprof.start_server(port) in the training program, and check the port and the firewall.",
        ) from error


def _request(messages: Any, seconds: float, target: Target) -> Any:
    # Servers differ in which of the two durations they go by.
    duration_ms = max(round(seconds * MS_PER_S), 1)
    return messages.ProfileRequest(
        duration_ms=duration_ms,
        repository_root=str(target.root.absolute()),
        session_id=target.session,
        host_name=target.host,
        opts=messages.ProfileOptions(
            version=_OPTIONS_VERSION,
            host_tracer_level=_HOST_LEVEL,
            device_tracer_level=_DEVICE_LEVEL,
            enable_hlo_proto=True,
            duration_ms=duration_ms,
        ),
    )


def _failed(address: str, error: Any) -> TpuprofError:
    if error.code().name == "DEADLINE_EXCEEDED":
        return TpuprofError(
            Code.CAPTURE_FAILED,
            f"{address}: the profiler server did not finish within {COLLECT_SECONDS:.0f} s of the recording's end.",
            "Record for a shorter --duration; for a JAX program without tensorflow see docs/capture.md.",
        )
    return TpuprofError(
        Code.CAPTURE_FAILED,
        f"{address}: the profiler server refused or broke off ({error.code().name}: {error.details()}).",
        "Another capture may be running there; try again, or with a shorter --duration.",
    )


def _written(address: str, empty: bool, target: Target) -> Path:
    if target.file.is_file() and target.file.stat().st_size:
        return target.file
    if empty:
        raise TpuprofError(
            Code.CAPTURE_EMPTY,
            f"{address}: the server recorded nothing.",
            "Check that training steps were running, and record longer with --duration.",
        )
    raise TpuprofError(
        Code.CAPTURE_MISSING_HOST,
        f"{address}: the server wrote {target.file.absolute()} on its own machine, and that is not here.",
        "Capture into a folder that all hosts share, or copy that file here.",
    )
