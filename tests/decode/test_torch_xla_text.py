"""Text that torch_xla prints: PT_XLA_DEBUG's analyses and metrics reports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.decode.debug_text import parse_debug_text
from tpuprof.decode.metrics_report import parse_metrics_report


def analysis(cause):
    return f"""loss 3.1
pt-xla-profiler: Op(s) not lowered: aten::_ctc_loss, aten::bincount,  Please open a GitHub issue with the above.
Compilation Analysis: ====================
Compilation Analysis: Compilation Cause
Compilation Analysis:   {cause}
Compilation Analysis: Graph Info:
Compilation Analysis:   Graph Hash: c74c3b91b855b2b123f833b0d5f86943
Compilation Analysis:   Graph Name: train
Compilation Analysis:   Number of Graph Inputs: 35
Compilation Analysis:   Number of Graph Outputs: 107
Compilation Analysis: Python Frame Triggered Execution:
Compilation Analysis:   sync (/x/xla_model.py:1055)
Compilation Analysis:   step (train.py:48)
Compilation Analysis:   ..........
Compilation Analysis: --------------------
Compilation Analysis: ====================
Post Compilation Analysis: ====================
Post Compilation Analysis: Graph input size: 1.500000 GB
Post Compilation Analysis: Graph output size: 0.250000 GB
Post Compilation Analysis: Aliased Input size: 0.125000 GB
Post Compilation Analysis: Intermediate tensor size: 12.000000 GB
Post Compilation Analysis: Compiled program size: 0.031250 GB
Post Compilation Analysis: --------------------
Post Compilation Analysis: ====================
step 4 done
"""


@pytest.mark.parametrize("cause", ["user `mark_step`", "user `torch_xla.sync()`"])
def test_a_compilation_in_both_wordings(cause):
    found = parse_debug_text(analysis(cause))
    (each,) = found.compiles
    assert each.cause == cause.replace("`", "")
    assert (each.graph_hash, each.graph_name, each.inputs, each.outputs) == (
        "c74c3b91b855b2b123f833b0d5f86943", "train", 35, 107,
    )  # fmt: skip
    assert each.frames == ["sync (/x/xla_model.py:1055)", "step (train.py:48)"]
    assert each.sizes["temporaries"] == 12 << 30
    assert each.sizes == {
        "arguments": 3 << 29, "outputs": 1 << 28, "aliased": 1 << 27, "temporaries": 12 << 30, "code": 1 << 25,
    }  # fmt: skip
    assert found.not_lowered == ["aten::_ctc_loss", "aten::bincount"]


@pytest.mark.shared_traces
def test_the_documentations_example(shared_traces):
    found = parse_debug_text((shared_traces / "text" / "08_docs_full_example.txt").read_text())
    assert found.not_lowered == ["aten::_ctc_loss", "aten::_ctc_loss_backward"]
    assert [each.graph_hash for each in found.compiles] == ["c74c3b91b855b2b123f833b0d5f86943"]
    first = found.compiles[0]
    assert first.cause == "torch_xla.sync() in parallel loader at step end"
    assert first.frames[-1].startswith("<module> (")
    assert first.sizes["outputs"] == round(7.922460 * 2**30)


REPORT = """Metric: CompileTime
  TotalSamples: 3
  Accumulator: 02s513ms250.500us
  Percentiles: 1%=003.255us
Metric: InboundData
  TotalSamples: 2
  Accumulator: 3.50MB
Metric: TensorsGraphSize
  TotalSamples: 1
  Accumulator: 4.00
Counter: aten::bincount
  Value: 12
Counter: Broken
  Value: many
"""


def test_a_metrics_report():
    found = parse_metrics_report(REPORT)
    assert found.metrics["CompileTime"] == (3, pytest.approx(2.5132505))
    assert found.metrics["InboundData"] == (2, 3.5 * 2**20)
    assert found.metrics["TensorsGraphSize"] == (1, 4.0)
    assert found.counters == {"aten::bincount": 12}


@given(st.text())
def test_any_text_is_read(text):
    parse_debug_text(analysis("x") + text)
    parse_metrics_report(REPORT + text)


@given(st.integers(0, len(analysis("x"))))
def test_text_cut_anywhere(end):
    assert len(parse_debug_text(analysis("x")[:end]).compiles) <= 1


def test_such_text_in_a_run_folder_reaches_the_report(tmp_path):
    from tests.builders import TraceBuilder
    from tpuprof.analysis.analyze import analyze_run

    trace = TraceBuilder()
    python = trace.host().line("python")
    python.repeat("train", [0, 1000, 2000], 1000, _r=1, step_num=4)
    python.event("XLAGraphExecutor::Compile", 1100, 500, graph_hash="c74c3b91b855b2b123f833b0d5f86943")
    trace.write(tmp_path / "plugins" / "profile" / "a" / "host.xplane.pb")
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "debug.txt").write_text(analysis("user `mark_step`"))
    (tmp_path / "metrics.txt").write_text(REPORT)
    report = analyze_run(tmp_path)
    (row,) = report.compiles
    assert "user mark_step, 35 inputs, 107 outputs" in row.cause.detail
    assert (row.cause.source_file, row.cause.source_line) == ("/x/xla_model.py", 1055)
    assert {each.op for each in report.fallbacks} == {"aten::bincount", "aten::_ctc_loss"}
    assert report.fallbacks[0].per_step is None
    assert report.memory.method.startswith("PT_XLA_DEBUG")
    assert report.memory.peak_bytes == (3 << 29) + (1 << 28) + (12 << 30) + (1 << 25) - (1 << 27)
