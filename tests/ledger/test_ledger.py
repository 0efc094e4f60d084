"""Ledger files: what is written is read, cut anywhere, and none of the ways a disk can fail raises."""

import contextlib
import errno
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import TpuprofError
from tpuprof.ledger import blocks, rows, writer
from tpuprof.ledger.packing import pack_dead
from tpuprof.ledger.reader import read_folder, read_ledger
from tpuprof.ledger.rows import COLUMNS, LARGEST, UNKNOWN, Row, whole
from tpuprof.ledger.writer import LedgerWriter

SECOND = 10**9


class FakeClock:
    def __init__(self):
        self.now, self.offset = 1000 * SECOND, 1_760_000_000 * SECOND

    def now_ns(self):
        return self.now

    def wall_ns(self):
        return self.now + self.offset

    def cpu_ns(self):
        return self.now // 2


values = st.integers(-LARGEST, LARGEST)
row_lists = st.lists(st.tuples(*[values] * len(COLUMNS)).map(lambda each: Row(*each)), max_size=40)


def stored(path):
    ledger = read_ledger(path)
    return [Row(*map(int, each)) for each in zip(*ledger.columns.values(), strict=True)]


@given(row_lists)
def test_rows_come_back_as_they_were(given_rows):
    first, columns = rows.decode(rows.encode(7, given_rows))
    assert first == 7
    assert [Row(*map(int, each)) for each in zip(*columns.values(), strict=True)] == given_rows


@given(st.binary(max_size=300))
def test_damaged_rows_are_refused(data):
    with contextlib.suppress(ValueError):
        rows.decode(data)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=60), max_size=6), st.data())
def test_a_file_cut_anywhere_keeps_its_whole_blocks(payloads, data):
    whole_file = b"".join(blocks.encode(blocks.Kind.STEPS, each) for each in payloads)
    cut = data.draw(st.integers(0, len(whole_file)))
    kept, lost = blocks.decode(whole_file[:cut])
    size, expected = 0, []
    for each in payloads:
        size += blocks.HEADER_BYTES + len(each)
        if size <= cut:
            expected.append(each)
    assert [block.payload for block in kept] == expected
    assert lost == cut - sum(blocks.HEADER_BYTES + len(each) for each in expected)


@settings(max_examples=60)
@given(st.lists(st.binary(min_size=1, max_size=60), min_size=2, max_size=6), st.data())
def test_damage_in_the_middle_costs_one_block(payloads, data):
    encoded = [blocks.encode(blocks.Kind.STEPS, each) for each in payloads]
    which = data.draw(st.integers(0, len(encoded) - 1))
    at = data.draw(st.integers(0, len(encoded[which]) - 1))
    broken = bytearray(encoded[which])
    broken[at] ^= 0xFF
    kept, lost = blocks.decode(b"".join([*encoded[:which], bytes(broken), *encoded[which + 1 :]]))
    rest = payloads[:which] + payloads[which + 1 :]
    assert [block.payload for block in kept if block.payload in rest] == rest
    assert lost > 0


def filled(folder, clock, count, *, close=None, per_flush=3, name="host-1"):
    ledger = LedgerWriter(folder, name, {"job": "job", "started_ns": clock.now_ns()}, clock)
    written = []
    rng = np.random.default_rng(0)
    for step in range(count):
        length = int(2.5e8 * rng.lognormal(0, 0.05))
        row = Row(
            step, clock.now, length, input_us=int(rng.integers(2000)), read_us=int(rng.integers(9000)),
            cut_us=int(rng.integers(20000)), tracing_us=int(rng.integers(50000)), graphs=1,
            host_bytes=2 * 10**9 + 4096 * int(rng.integers(100)), cpu_us=int(rng.integers(200000)),
        )  # fmt: skip
        ledger.add(row)
        written.append(row)
        clock.now += length
        if step % per_flush == per_flush - 1:
            ledger.flush()
    if close:
        ledger.close(close)
    return ledger, written


def test_a_killed_process_leaves_all_it_flushed(tmp_path):
    clock = FakeClock()
    ledger, written = filled(tmp_path, clock, 5000)
    assert stored(ledger.path) == written[: 5000 // 3 * 3]
    found = read_ledger(ledger.path)
    assert found.ended == ""
    assert found.missing_rows == found.lost_bytes == 0
    # The last sign of life is as old as the last flush.
    assert clock.now - found.last_ns < SECOND


def test_a_packed_ledger_takes_less_than_100_bytes_per_step(tmp_path):
    ledger, written = filled(tmp_path, FakeClock(), 10_000, close="exit")
    files = list((tmp_path / "ledgers").iterdir())
    assert [each.name for each in files] == ["host-1.ledger"]
    assert files[0].stat().st_size / len(written) <= 100
    assert stored(ledger.path) == written
    assert read_ledger(ledger.path).ended == "exit"


def test_a_kill_between_packing_and_emptying_the_tail_doubles_nothing(tmp_path):
    clock = FakeClock()
    ledger, written = filled(tmp_path, clock, 30)
    tail = (tmp_path / "ledgers" / "host-1.tail").read_bytes()
    ledger.event("mark")
    ledger.close("exit")
    (tmp_path / "ledgers" / "host-1.tail").write_bytes(tail)
    assert stored(ledger.path) == written
    assert [each["kind"] for each in read_ledger(ledger.path).events] == ["mark", "end"]


@pytest.mark.parametrize("allowed", [0, 10, 200])
def test_a_full_disk_loses_nothing_that_memory_can_hold(tmp_path, monkeypatch, allowed):
    clock = FakeClock()
    ledger = LedgerWriter(tmp_path, "host-1", {}, clock)
    real = os.write
    full = True

    def write(handle, data):
        if not full:
            return real(handle, data)
        real(handle, data[:allowed])
        if allowed:
            return allowed
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer.os, "write", write)
    written = []
    for step in range(20):
        written.append(Row(step, clock.now, SECOND))
        ledger.add(written[-1])
        clock.now += SECOND
        assert not ledger.flush()
    assert "space" in ledger.problem or "full" in ledger.problem
    full = False
    assert ledger.flush()
    assert stored(ledger.path) == written


def test_rows_beyond_memory_are_counted_as_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING", 10)
    clock = FakeClock()
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    ledger = LedgerWriter(blocked, "host-1", {}, clock)
    for step in range(25):
        ledger.add(Row(step, step, 1))
        assert not ledger.flush()
    assert ledger.problem
    blocked.unlink()
    assert ledger.flush()
    found = read_ledger(ledger.path)
    assert [int(each) for each in found.columns["step"]] == list(range(15, 25))
    assert [each["rows"] for each in found.events if each["kind"] == "rows_lost"] == [15]


def test_an_unwritable_folder_raises_nothing(tmp_path):
    ledger = LedgerWriter(tmp_path / "file" / "x", "host-1", {}, FakeClock())
    (tmp_path / "file").write_text("")
    ledger.add(Row(0, 0, 1))
    assert not ledger.flush()
    ledger.close("exit")
    assert "file" in ledger.problem


def test_a_clock_jump_is_noted_and_times_stay_in_order(tmp_path):
    clock = FakeClock()
    ledger = LedgerWriter(tmp_path, "host-1", {"started_ns": clock.now}, clock)
    for step in range(10):
        if step == 5:
            clock.offset -= 3600 * SECOND
        ledger.add(Row(step, clock.now, SECOND))
        clock.now += SECOND
        ledger.flush()
    found = read_ledger(ledger.path)
    assert [each["seconds"] for each in found.events if each["kind"] == "clock_jump"] == [-3600.0]
    assert np.diff(found.columns["start_ns"]).min() > 0
    assert found.wall_ns(found.last_ns) == clock.wall_ns()
    assert found.wall_ns(found.started_ns) == clock.wall_ns() - 10 * SECOND + 3600 * SECOND


def test_what_a_killed_process_left_is_packed_and_what_lives_is_not(tmp_path):
    clock = FakeClock()
    dead, written = filled(tmp_path, clock, 300, name="host-1")
    dead.event("mark")
    dead.flush()
    before = read_ledger(dead.path)
    # Its process is gone: the lock with it.
    dead.abandon()
    living, also = filled(tmp_path, clock, 30, name="host-2")
    assert pack_dead(tmp_path, "host", "host-3") == ["host-1"]
    assert sorted(each.name for each in (tmp_path / "ledgers").iterdir()) == ["host-1.ledger", "host-2.tail"]
    after = read_ledger(dead.path)
    assert stored(dead.path) == written
    assert (after.meta, after.events, after.last_ns) == (before.meta, before.events, before.last_ns)
    assert (tmp_path / "ledgers" / "host-1.ledger").stat().st_size / len(written) <= 100
    assert pack_dead(tmp_path, "host", "host-3") == []
    living.close("exit")
    assert stored(living.path) == also


def test_a_forked_child_writes_nothing(tmp_path):
    ledger, _ = filled(tmp_path, FakeClock(), 6)
    size = sum(each.stat().st_size for each in (tmp_path / "ledgers").iterdir())
    pid = os.fork()
    if pid == 0:
        ledger.add(Row(99, 0, 1))
        ledger.flush()
        ledger.close("exit")
        os._exit(0)
    os.waitpid(pid, 0)
    assert sum(each.stat().st_size for each in (tmp_path / "ledgers").iterdir()) == size


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_what_is_no_number_is_unknown(value):
    assert whole(value) == UNKNOWN
    assert whole(2**80) == LARGEST


def test_a_folder_without_a_ledger_is_an_error(tmp_path):
    with pytest.raises(TpuprofError, match="input-no-ledger"):
        read_folder(tmp_path)
    with pytest.raises(TpuprofError, match="input-not-found"):
        read_folder(tmp_path / "none")


@pytest.mark.parametrize(
    ("wall", "believed"), [(1_760_000_000 * SECOND, True), (2**62, True), (2**62 + 1, False)]
)
def test_a_wall_clock_is_believed_until_the_year_2116(tmp_path, wall, believed):
    clock = FakeClock()
    clock.offset = wall - clock.now
    ledger = LedgerWriter(tmp_path, "a", {}, clock)
    ledger.add(Row(1, clock.now, SECOND))
    ledger.flush()
    found = read_ledger(tmp_path / "ledgers" / "a")
    assert found.life == ([(wall, clock.now)] if believed else [])
    assert found.steps == 1
