"""The scopes in an op's name."""

import pytest

from tpuprof.model.compile.hlo_metadata import scope_names


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("attention.3/softmax.1/aten__softmax", ["attention", "softmax"]),
        ("jit(f)/jit(main)/while/body/add", []),
        ("a/b/:", ["a", "b"]),
        ("", []),
        ("/", []),
        # An address or an absolute path stays one.
        ("Decoder//data/x.py/dot", ["Decoder", "/data", "x.py"]),
        ("Decoder/http://host:80/x/dot", ["Decoder", "http:", "/host:80", "x"]),
        ("/data/x/dot", ["/data", "x"]),
    ],
)
def test_scopes_are_what_stands_between_slashes(scope, names):
    assert scope_names(scope) == names
