"""The watch over imports: it acts once, after the module's own code, and changes nothing else about the import."""

import importlib
import importlib.util
import subprocess
import sys
import threading
import traceback
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

import pytest

from tests import scripts
from tpuprof.instrument import after_import

NAME = "framework_to_watch"


@pytest.fixture
def events(tmp_path, monkeypatch):
    """A package to import, and what the watch was called with."""
    package = tmp_path / NAME
    (package / "core").mkdir(parents=True)
    (package / "__init__.py").write_text("loaded = True\n")
    (package / "core" / "__init__.py").write_text("")
    (package / "core" / "model.py").write_text("value = 1\n")
    (tmp_path / "another_module.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    modules = dict(sys.modules)
    happened = []
    yield happened
    after_import._wanted.clear()
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


def watch(happened, **options):
    after_import.watch(
        (NAME,), lambda name: happened.append(("after", name, sys.modules[name].loaded)), **options
    )


def test_queries_leave_the_watch_and_the_spec_alone(events):
    plain = importlib.util.find_spec(NAME)
    watch(events)
    for _ in range(3):
        spec = importlib.util.find_spec(NAME)
        assert spec == plain
        assert isinstance(spec, ModuleSpec)
        assert type(spec.loader) is SourceFileLoader
        assert spec.submodule_search_locations == plain.submodule_search_locations
        assert spec.loader.is_package(NAME)
        assert spec.loader.get_filename(NAME) == plain.origin
        assert "loaded = True" in spec.loader.get_source(NAME)
    assert events == []
    module = importlib.import_module(NAME)
    assert events == [("after", NAME, True)]
    assert type(module.__spec__) is ModuleSpec
    assert type(module.__loader__) is SourceFileLoader


def test_a_submodule_imported_first_imports_the_package(events):
    watch(events)
    importlib.import_module(f"{NAME}.core.model")
    assert events == [("after", NAME, True)]


def test_another_thread_imports(events):
    watch(events)
    thread = threading.Thread(target=importlib.import_module, args=(NAME,))
    thread.start()
    thread.join()
    assert events == [("after", NAME, True)]


def test_an_import_that_fails_is_watched_again_and_its_traceback_is_clean(events, tmp_path):
    good = (tmp_path / NAME / "__init__.py").read_text()
    (tmp_path / NAME / "__init__.py").write_text("raise ImportError('no device library')\n")
    watch(events, before=lambda name: events.append(("before", name)))
    with pytest.raises(ImportError) as failure:
        importlib.import_module(NAME)
    files = [frame.filename for frame in traceback.extract_tb(failure.value.__traceback__)]
    assert after_import.__file__ not in files
    assert events == [("before", NAME)]
    (tmp_path / NAME / "__init__.py").write_text(good + "# longer, so that no cached code is taken\n")
    importlib.import_module(NAME)
    assert events == [("before", NAME), ("before", NAME), ("after", NAME, True)]


def test_a_reload_does_not_act_twice(events):
    watch(events)
    module = importlib.import_module(NAME)
    assert importlib.reload(module) is module
    assert len(events) == 1


def test_what_is_imported_already_is_acted_on_at_once(events):
    importlib.import_module(NAME)
    watch(events)
    assert events == [("after", NAME, True)]


def test_two_watches_of_one_module_both_act(events):
    watch(events)
    watch(events)
    importlib.import_module(NAME)
    assert len(events) == 2


class Rude:
    """A finder that stands first and does not ask others, as type checkers' import hooks do."""

    asked = 0

    def find_spec(self, name, path=None, target=None):
        Rude.asked += name == NAME
        return PathFinder.find_spec(name, path, target) if name == NAME else None


def test_a_finder_put_before_ours_before_other_imports(events):
    watch(events)
    sys.meta_path.insert(0, Rude())
    Rude.asked = 0
    importlib.import_module("another_module")  # what lets the watch move to the front again
    importlib.import_module(NAME)
    assert Rude.asked == 1
    assert events == [("after", NAME, True)]


def test_a_finder_put_before_ours_right_before_the_import(events):
    watch(events)
    sys.meta_path.insert(0, Rude())
    importlib.import_module(NAME)
    importlib.import_module("another_module")
    assert events == [("after", NAME, True)]


class Asking:
    """A finder that asks all finders, and keeps itself out of it, as hooks of monkey-patchers do."""

    busy = False

    def find_spec(self, name, path=None, target=None):
        if name != NAME or self.busy:
            return None
        self.busy = True
        try:
            return importlib.util.find_spec(name)
        finally:
            self.busy = False


@pytest.mark.parametrize("index", [0, 1])
def test_a_finder_that_asks_all_finders(events, index):
    watch(events)
    sys.meta_path.insert(index, Asking())
    importlib.import_module(NAME)
    assert events == [("after", NAME, True)]


def test_a_lazy_module_is_left_lazy(events):
    watch(events)
    spec = importlib.util.find_spec(NAME)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    importlib.import_module("another_module")
    assert events == []
    assert module.loaded
    importlib.import_module(f"{NAME}.core.model")
    assert events == [("after", NAME, True)]


def test_a_module_that_is_missing_stays_missing(events):
    after_import.watch(("no_such_framework",), events.append)
    assert importlib.util.find_spec("no_such_framework") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_framework")
    assert events == []


def test_an_error_of_ours_does_not_reach_the_import(events, capsys):
    def fail(_):
        raise ValueError("ours")

    after_import.watch((NAME,), fail)
    assert importlib.import_module(NAME).loaded
    assert "ValueError('ours')" in capsys.readouterr().err


def test_it_loads_nothing_that_a_program_would_notice():
    code = "import sys; import tpuprof.instrument.after_import; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=scripts.environment(), capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "tpuprof.instrument.after_import" in loaded
    assert not loaded & {"torch", "numpy", "inspect", "typer", "dataclasses"}
