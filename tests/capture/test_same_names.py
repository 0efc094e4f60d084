"""Hosts of one name, and processes of one host, that write into a folder which they share: each is kept."""

import json
from concurrent.futures import ThreadPoolExecutor

from tpuprof.capture.run_writer import place_profile, write_run_info
from tpuprof.run_folder import NOTES, labels, renamed_note


def profile(folder, number):
    path = folder / f"{number}.tmp"
    path.write_text(f"profile {number}", "utf-8")
    return path


def test_containers_of_one_name_whose_processes_have_one_number_are_kept(tmp_path):
    """The third one took the place of the second: both were `train-1`."""
    placed = [place_profile(tmp_path / "run", "x", "train", profile(tmp_path, each)) for each in range(4)]
    assert len(set(placed)) == 4
    assert [path.read_text("utf-8") for path in placed] == [f"profile {each}" for each in range(4)]


def test_the_list_of_hosts_tells_them_apart(tmp_path):
    names = ["root@w0:22", "w1", "w1", "w2"]
    placed = [
        place_profile(tmp_path / "run", "x", "train", profile(tmp_path, row), name)
        for row, name in enumerate(names)
    ]
    found = [path.name.removesuffix(".xplane.pb") for path in placed]
    assert found == ["train", "train-w1", "train-w1-2", "train-w2"]


def test_those_that_write_at_the_same_moment_are_kept(tmp_path):
    def write(row):
        place_profile(tmp_path / "run", "x", "train", profile(tmp_path, row))
        write_run_info(tmp_path / "run", {"host": "train", "rank": row, "capture": {"name": "x"}})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(32)))
    texts = {path.read_text("utf-8") for path in (tmp_path / "run").rglob("*.xplane.pb")}
    assert texts == {f"profile {row}" for row in range(32)}
    infos = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "run" / NOTES).glob("run*.json")]
    assert sorted(each["rank"] for each in infos) == list(range(32))


def test_of_processes_that_take_themselves_for_the_first_each_description_is_kept(tmp_path):
    def write(number):
        write_run_info(tmp_path, {"host": "train", "rank": 0, "number": number, "capture": {"name": name}})

    for name in ("first", "second"):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(16) if name == "first" else [99]))
        files = sorted((tmp_path / NOTES).iterdir())
        assert len(files) == 16
        numbers = [json.loads(path.read_text("utf-8"))["number"] for path in files if path.name != "run.json"]
        newest = json.loads((tmp_path / NOTES / "run.json").read_text("utf-8"))
        assert newest["capture"]["name"] == name
        assert len({*numbers, newest["number"]}) == 16


def test_a_note_goes_with_its_profile_and_with_no_other():
    assert renamed_note("telemetry.train.0.jsonl", "train", "train-2") == "telemetry.train-2.0.jsonl"
    assert renamed_note("pt_xla_debug.train.3.txt", "train", "train-2") == "pt_xla_debug.train-2.3.txt"
    assert (
        renamed_note("telemetry.train.internal.0.jsonl", "train", "train-2")
        == "telemetry.train.internal.0.jsonl"
    )
    assert renamed_note("telemetry.train.internal.0.jsonl", "train.internal", "a") == "telemetry.a.0.jsonl"
    assert renamed_note("graphs.train.0.txt", "train", "a") == "graphs.train.0.txt"


def test_names_go_on_without_end():
    found = labels("train", "")
    assert [next(found) for _ in range(3)] == ["train", "train-2", "train-3"]
