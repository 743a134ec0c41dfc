from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from producers.collector import Identity
from producers.nvidia_smi import collector as module
from producers.nvidia_smi.collector import FAILURES_MAX, Answer, SmiCollector, SmiError, run_program
from runtime.counters import Counters
from tests.virtual_clock import VirtualClock


def test_columns_that_the_driver_refuses_are_given_up_one_by_one() -> None:
    """And not queried again."""
    known = {"uuid", "name", "utilization.gpu", "clocks_throttle_reasons.active"}
    columns: list[int] = []

    def run(arguments: Sequence[str]) -> Answer:
        names = arguments[1].removeprefix("--query-gpu=").split(",")
        columns.append(len(names))
        wrong = next((name for name in names if name not in known), None)
        if wrong is not None:
            return Answer(2, f'Field "{wrong}" is not a valid field to query.')
        return Answer(0, f"{', '.join(names)}\nGPU-a, X, 50 %, 0x4\n")

    collector = SmiCollector("smi", Identity({}, {}), 1, run=run, clock=VirtualClock(), counters=Counters())
    (collected,) = collector.collect(1)
    runs = len(columns)
    collector.collect(2)

    known_now = {name: value for name, value in collected.rows[0].items() if value is not None}
    assert known_now == {
        "at_ms": 1,
        "origin": "measured",
        "gpu_uuid": "GPU-a",
        "gpu_model": "X",
        "util_gpu_pct": 50,
        "clock_reasons": 4,
    }
    assert (len(columns), columns[-1]) == (runs + 1, 4)


def test_failures_are_counted_and_at_last_an_error() -> None:
    """A driver that does not answer, a column that it names although it was not queried."""
    counters = Counters()
    answers = [Answer(9, "NVIDIA-SMI has failed"), Answer(2, 'Field "else" is not a valid field to query.')]
    collector = SmiCollector(
        "smi", Identity({}, {}), 1, run=lambda _: answers[0], clock=VirtualClock(), counters=counters
    )
    for at_ms in range(FAILURES_MAX - 1):
        assert collector.collect(at_ms) == []
    answers.pop(0)
    with pytest.raises(SmiError, match="ended with 2"):
        collector.collect(99)

    assert counters.value("sampler_errors", sampler="nvidia_smi", field="program") == FAILURES_MAX


def test_values_outside_their_bounds_and_lines_left_out_are_counted() -> None:
    """The GPU's own row stays; its placement is in it, and it is queried seldom."""
    counters = Counters()
    text = "uuid, utilization.gpu, pstate\nGPU-a, 101 %, P0\nbroken\n"
    placement: dict[str, dict[str, str | None]] = {"GPU-a": {"engine_id": "e"}}
    collector = SmiCollector(
        "smi",
        Identity({"host": "h"}, placement),
        1,
        run=lambda _: Answer(0, text),
        clock=VirtualClock(),
        counters=counters,
    )
    (collected,) = collector.collect(1)

    row: dict[str, Any] = collected.rows[0]
    assert (row["util_gpu_pct"], row["performance_state"], row["engine_id"], row["host"]) == (None, 0, "e", "h")
    assert counters.value("sampler_errors", sampler="nvidia_smi", field="util_gpu_pct") == 1
    assert counters.value("sampler_errors", sampler="nvidia_smi", field="line") == 1
    assert collector.period_ms == 5_000


@pytest.mark.parametrize("text", ["{warning}{table}", "{table}{warning}"])
def test_a_warning_of_one_gpu_costs_no_sample(text: str) -> None:
    """A corrupted infoROM: it ends with a status of its own, and has printed the table of all GPUs."""
    counters = Counters()
    output = text.format(
        warning="WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n",
        table="uuid, utilization.gpu [%]\nGPU-a, 5 %\nGPU-b, 7 %\n",
    )
    collector = SmiCollector(
        "smi", Identity({}, {}), 1, run=lambda _: Answer(14, output), clock=VirtualClock(), counters=counters
    )

    (collected,) = collector.collect(1)

    assert [(row["gpu_uuid"], row["util_gpu_pct"]) for row in collected.rows] == [("GPU-a", 5), ("GPU-b", 7)]
    assert counters.value("sampler_errors", sampler="nvidia_smi", field="line") == 1
    assert counters.value("sampler_errors", sampler="nvidia_smi", field="program") == 0


@pytest.mark.parametrize(
    "answer",
    [Answer(14, "WARNING: infoROM is corrupted at gpu 0000:3B:00.0"), Answer(15, "uuid\nGPU-a\n")],
    ids=["no table", "another status"],
)
def test_a_status_that_is_no_warning_is_a_failure(answer: Answer) -> None:
    """Also that of a warning, where no table came."""
    counters = Counters()
    collector = SmiCollector("smi", Identity({}, {}), 1, run=lambda _: answer, clock=VirtualClock(), counters=counters)

    assert collector.collect(1) == []
    assert counters.value("sampler_errors", sampler="nvidia_smi", field="program") == 1


def test_a_program_runs_without_a_shell(tmp_path: Path) -> None:
    """Arguments are arguments; errors stand in the same output; its environment speaks English."""
    script = tmp_path / "a program.py"
    script.write_text(
        "import os, sys; print(sys.argv[1], os.environ['LC_ALL'], flush=True); sys.stderr.write('e'); sys.exit(3)"
    )

    assert run_program([sys.executable, str(script), "$(id); x"]) == Answer(3, "$(id); x C\ne")


def test_a_program_that_is_not_there_or_hangs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time limit."""
    with pytest.raises(SmiError, match="cannot be run"):
        run_program(["/no/such/nvidia-smi"])
    monkeypatch.setattr(module, "LIMIT_S", 0.05)
    with pytest.raises(SmiError, match="did not end"):
        run_program([sys.executable, "-c", "input = __import__('threading').Event().wait()"])
