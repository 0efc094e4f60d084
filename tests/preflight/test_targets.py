"""Names of slices."""

import pytest

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.targets import known_names, parse_target


@pytest.mark.parametrize(
    ("name", "topology", "chips", "devices"),
    [
        ("v5e-4", "v5e:2x2", 4, 4),
        ("v5litepod-16", "v5e:4x4", 16, 16),
        ("v5e-1", "v5e:1x1", 1, 1),
        ("v5p-8", "v5p:2x2x1", 4, 4),
        ("v5p-256", "v5p:4x4x8", 128, 128),
        ("v6e-8", "v6e:2x4", 8, 8),
        ("v4-8", "v4:2x2x1", 4, 4),
        ("tpu7x-8", "tpu7x:2x2x1", 4, 8),
        ("v5e:4x8", "v5e:4x8", 32, 32),
        ("V6E-4", "v6e:2x2", 4, 4),
    ],
)
def test_names(name, topology, chips, devices):
    target = parse_target(name)
    assert (target.topology, target.chips, target.devices) == (topology, chips, devices)


@pytest.mark.parametrize("name", ["v5e-3", "v5p-7", "h100-8", "v5e", "", "v5p-4096000"])
def test_unknown_names_list_the_known(name):
    with pytest.raises(TpuprofError) as caught:
        parse_target(name)
    assert caught.value.code is Code.UNKNOWN_TARGET
    assert "v5e-N with N of 1, 4, 8" in str(caught.value)


def test_every_name_of_the_table_parses():
    assert all(parse_target(name).chips >= 1 for name in known_names())


@pytest.mark.parametrize(
    ("name", "links"), [("v5e-1", 1), ("v5e-4", 2), ("v5e-16", 4), ("v5p-8", 2), ("v5p-128", 6)]
)
def test_links_of_a_chip(name, links):
    assert parse_target(name).links == links
