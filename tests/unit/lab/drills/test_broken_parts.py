"""Parts are taken out by the doctor's own commands, until it names none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleetpulse.doctor.judge_database import _client
from lab.drills import broken_parts
from lab.drills.broken_parts import take_out, taking_out
from lab.drills.stand import SINK

DETACH = "ALTER TABLE fleetpulse.books DETACH PART 'all_1_1_0'"
DROP = "ALTER TABLE fleetpulse.books DROP DETACHED PART 'broken_all_1_1_0' SETTINGS allow_drop_detached = 1"


def finding(statement: str, check: str = "parts", state: str = "wrong") -> dict[str, Any]:
    return {"check": check, "state": state, "mend": f"{_client(statement)}   # once its rows are back"}


def test_only_what_takes_a_part_out_is_a_statement_of_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its command runs it; a part that ClickHouse has taken out is dropped once its rows are back."""
    good = {"check": "parts", "state": "good", "mend": None}
    found = [finding(DETACH), finding(DROP), finding("SELECT 1", "disk"), good]
    monkeypatch.setattr(broken_parts, "reported", lambda _stand: found)

    assert list(taking_out(cast(Any, None))) == [DETACH]


def test_parts_are_taken_out_until_the_doctor_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what a statement has come upon, one after the other, and more once all is read again."""
    named = [["a"], [], ["b"], [], ["c"], [], [], []]
    done: list[str] = []
    clock = iter(range(1_000))
    config = SimpleNamespace(clickhouse=None, kafka=None)
    processes = SimpleNamespace(command=lambda name: name, stop=lambda name: done.append("stop"), start=done.append)
    stand = SimpleNamespace(config=config, processes=processes, pass_time=lambda _s: None, until=lambda *_of: None)

    async def set_back(_kafka: object) -> None:
        done.append("set back")

    monkeypatch.setattr(broken_parts, "NONE_FOR_S", 4)
    monkeypatch.setattr(broken_parts.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(broken_parts, "taking_out", lambda _stand: named.pop(0) if named else [])
    monkeypatch.setattr(broken_parts, "connect", lambda _c: SimpleNamespace(command=done.append, close=lambda: None))
    monkeypatch.setattr(broken_parts, "_set_back", set_back)
    take_out(cast(Any, stand))

    assert done == ["a", "b", "c", "stop", "set back", "sink"]


LAG = 'fleetpulse_sink_lag_records{partition="%s",topic="window.partials"} %s\n'
OTHER = 'fleetpulse_sink_lag_records{partition="0",topic="books"} 900.0\n'
WAITING = 'fleetpulse_rollup_waiting{level="%s"} %s\n'


@pytest.mark.parametrize(
    ("metrics", "done"),
    [
        ((LAG % (0, 0.0), LAG % (1, 3.0), OTHER, WAITING % ("1m", 0.0), WAITING % ("1h", 0.0)), True),
        ((LAG % (0, 0.0), LAG % (1, 900.0), WAITING % ("1m", 0.0)), False),
        ((LAG % (0, 0.0), WAITING % ("1m", 0.0), WAITING % ("1h", 1.0)), False),
        ((OTHER, WAITING % ("1m", 0.0)), False),
        ((LAG % (0, 0.0),), False),
        (None, False),
    ],
    ids=["no lag", "lag", "a rollup waits", "nothing read yet", "no rollup looked for yet", "no answer"],
)
def test_parts_are_looked_for_until_the_sink_has_caught_up(
    monkeypatch: pytest.MonkeyPatch, metrics: tuple[str, ...] | None, done: bool
) -> None:
    """Rollups come upon a part only once what they are computed from has been read again."""

    def page(_port: int, _path: str, _within_s: float) -> str:
        if metrics is None:
            raise TimeoutError
        return "".join(metrics)

    monkeypatch.setattr("lab.drills.stand.page", page)

    assert broken_parts._is_done(cast(Any, SimpleNamespace(ports={SINK: 1}))) is done
