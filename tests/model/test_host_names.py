"""Findings of several hosts say which host they were seen on; those of one do not."""

from tests.model.test_hosts import host


def failed(report):
    return [each.title for each in report.findings if each.status == "failed"]


def test_the_first_finding_names_the_host(analyze):
    both = analyze(host((0, 60)), host((60, 60)))
    assert failed(both)[0].endswith("(mean of 2 hosts, seen on host0)")
    # A title that names its host needs no more.
    assert "host1 holds the other hosts up by 60.0 µs per step" in failed(both)


def test_devices_of_several_hosts_carry_their_host(analyze):
    def devices(report):
        return {core.device for op in report.ops for core in op.cores}

    assert devices(analyze(host((0, 0)))) == {"/device:TPU:0"}
    assert devices(analyze(host((0, 0)), host((0, 0)))) == {
        "/device:TPU:0 of host0",
        "/device:TPU:0 of host1",
    }
