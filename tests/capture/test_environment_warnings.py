"""What a capture notes of where it runs leaves the program's warnings alone."""

import platform
import warnings

from tpuprof.capture import environment


def warned(times=2):
    for _ in range(times):
        warnings.warn("of the program", stacklevel=1)


def test_a_warning_that_was_shown_is_not_shown_again_behind_a_capture(monkeypatch):
    """A program with `xm.mark_step()` had each of its warnings twice: `platform.platform()` starts `uname`."""
    monkeypatch.setattr(platform, "_uname_cache", None)
    monkeypatch.setattr(environment, "devices", dict)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        warned()
        noted = environment.describe("host", 0, 1)["platform"]
        warned()
    assert [str(each.message) for each in shown] == ["of the program"]
    assert noted == platform.platform()
