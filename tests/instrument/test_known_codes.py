"""Which code objects the sampler knows by their addresses."""

import functools
import sys
import types

from tpuprof.instrument.known_codes import KnownCodes


def wraps(function):
    @functools.wraps(function)
    def wrapper():
        return function()

    return wrapper


@wraps
def wrapped():
    return sorted(range(3))


class Thing:
    @staticmethod
    def static():
        pass

    @property
    def value(self):
        return 1

    def method(self):
        return lambda: self


class Lazy:
    """Answers whatever is asked of it with an import, as lazy modules do."""

    def __getattribute__(self, name):
        raise AssertionError(f"asked for {name}")


lazy = Lazy()


def first():
    pass


def test_of_the_users_file_all_functions_are_known():
    known = KnownCodes()
    known.learn(first.__code__)
    for each in (wrapped.__wrapped__, Thing.static, Thing.value.fget, Thing.method, wraps):
        assert known[id(each.__code__)] is each.__code__
    inner = next(each for each in Thing.method.__code__.co_consts if isinstance(each, types.CodeType))
    assert known[id(inner)] is inner


def test_of_a_library_only_what_was_seen():
    known = KnownCodes()
    known.learn(functools.wraps.__code__)
    assert list(known.values()) == [functools.wraps.__code__]


def test_a_module_that_is_no_module_is_left_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "lazy_one", Lazy())
    known = KnownCodes()
    known.learn(first.__code__)
    assert id(first.__code__) in known
