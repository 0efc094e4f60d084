"""Findings of several hosts say which host they were seen on; those of one do not."""

from tests.model.test_hosts import host
from tpuprof.report.schema import Evidence, Finding
from tpuprof.rules.base import FAILED
from tpuprof.rules.host_names import with_hosts
from tpuprof.rules.registry import find_rule


def failed(report):
    return [each.title for each in report.findings if each.status == "failed"]


def test_the_first_finding_names_the_host(analyze):
    both = analyze(host((0, 60), takes=300), host((60, 60), takes=300))
    assert failed(both)[0].endswith("(mean of 2 hosts, seen on host0)")
    # A title that names its host needs no more.
    assert "host1 holds the other hosts up by 60.0 µs per step" in failed(both)


def test_what_was_seen_on_one_host_is_not_called_a_mean():
    found = Finding(
        "memory-growth",
        "memory",
        FAILED,
        "Memory grows",
        "",
        evidence=[Evidence("free", 1.0, "bytes", host="host1")],
    )
    named = with_hosts([(find_rule("memory-growth"), found)], ["host0", "host1"], 2)
    assert [each.title for each in named] == ["Memory grows (one of 2 hosts, seen on host1)"]


def test_what_was_seen_on_several_hosts_has_the_numbers_of_one():
    """ "One of 3 hosts, seen on 3 of them" contradicts itself."""
    seen = [Evidence("free", 1.0, "bytes", host=host) for host in ("host0", "host1")]
    found = Finding("memory-growth", "memory", FAILED, "Memory grows", "", evidence=seen)
    named = with_hosts([(find_rule("memory-growth"), found)], ["host0", "host1"], 2)
    assert named[0].title == "Memory grows (numbers of one of 2 hosts, seen on 2 of them)"


def test_a_mean_is_of_the_hosts_whose_steps_count_and_of_findings_with_figures():
    """ "The capture is not whole (mean of 4 hosts)" was said of a host without its device's plane."""
    late = Finding("exposed-collectives", "collective", FAILED, "It waits", "", severity=0.3)
    lost = Finding("truncated-trace", "run", FAILED, "The capture is not whole", "")
    rules = [find_rule("exposed-collectives"), find_rule("truncated-trace")]
    named = with_hosts(list(zip(rules, [late, lost], strict=True)), ["h0", "h1", "h2", "h3"], 3)
    assert [each.title for each in named] == ["It waits (mean of 3 hosts)", "The capture is not whole"]


def test_a_host_whose_name_begins_like_anothers_is_told_apart():
    found = Finding("memory-growth", "memory", FAILED, "host12 is late", "")
    named = with_hosts([(find_rule("memory-growth"), found)], ["host1", "host2"], 2)
    assert named[0].title == "host12 is late (one of 2 hosts)"


def test_devices_of_several_hosts_carry_their_host(analyze):
    def devices(report):
        return {core.device for op in report.ops for core in op.cores}

    assert devices(analyze(host((0, 0)))) == {"/device:TPU:0"}
    assert devices(analyze(host((0, 0)), host((0, 0)))) == {
        "/device:TPU:0 of host0",
        "/device:TPU:0 of host1",
    }
