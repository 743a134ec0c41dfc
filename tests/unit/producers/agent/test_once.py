from __future__ import annotations

import threading

from producers.agent.runner import Plan, Round, one_round
from tests.unit.producers.agent.collectors import PATIENCE_S, Plain, QuickClock


def test_a_round_tells_rows_errors_and_hangs() -> None:
    """In the order of the plans; the second reading counts; what was made is closed."""
    woken, good = threading.Event(), Plain()

    def hang(_number: int) -> None:
        woken.wait(PATIENCE_S)

    def fail(_number: int) -> None:
        raise OSError("no page")

    plans = [
        Plan("hangs", lambda: Plain(hang), 50),
        Plan("fails", lambda: Plain(fail), 50),
        Plan("good", lambda: good, 5_000),
    ]
    rounds = one_round(plans, QuickClock(), 0.0)
    woken.set()

    assert rounds[:2] == [Round("hangs", (), "hung for more than 50 ms"), Round("fails", (), "OSError: no page")]
    assert [row["host"] for part in rounds[2].collected for row in part.rows] == ["h"]
    assert (good.readings, good.closed.is_set()) == (2, True)
