"""The import of tensorflow's that JAX's profiler makes, where tensorflow is not installed."""

import ctypes
import importlib.util
import sys

import pytest

from tpuprof.capture.without_tensorflow import NAME, called


def imported(name):
    """Imports as XLA does, from the frame that calls it."""
    function = ctypes.pythonapi.PyImport_ImportModule
    function.restype, function.argtypes = ctypes.py_object, [ctypes.c_char_p]
    return function(name.encode())


pytestmark = pytest.mark.skipif(
    bool(importlib.util.find_spec("tensorflow")), reason="tensorflow is installed"
)


@pytest.mark.parametrize("function", [imported, ctypes.pythonapi.PyImport_ImportModule])
def test_the_module_is_there_for_the_call_alone(function):
    function = imported if function is imported else _native(function)
    name = NAME if function is imported else NAME.encode()
    assert called(function, name).__name__ == NAME
    assert [each for each in sys.modules if each.startswith("tensorflow")] == []
    with pytest.raises(ModuleNotFoundError):
        function(name)


def _native(function):
    function.restype, function.argtypes = ctypes.py_object, [ctypes.c_char_p]
    return function


def test_other_imports_and_errors_are_as_they_were():
    assert called(imported, "json.decoder").__name__ == "json.decoder"
    with pytest.raises(ModuleNotFoundError):
        called(imported, "tensorflow.python")


def test_a_tensorflow_that_is_there_is_imported(monkeypatch):
    own = type(sys)("tensorflow")
    monkeypatch.setitem(sys.modules, "tensorflow", own)
    with pytest.raises(ModuleNotFoundError):
        called(imported, NAME)


def test_defaults_of_a_function_stay():
    def function(a, b=2, *, c=3):
        return a, b, c

    assert called(function, 1) == (1, 2, 3)
    assert called(function, 1, c=4) == (1, 2, 4)
