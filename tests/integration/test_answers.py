"""Each question of ``fleetpulse ask``: its answer beside what plain loops over single rows say.

Covers fleetpulse.queries.questions.
"""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse import queries
from fleetpulse.queries.questions import numbered
from fleetpulse.sql.query import bound
from lab.oracle.said import shown
from lab.oracle.value import Shown, Value
from schemas.limits import HOUR_MS, MINUTE_MS
from tests.integration.answer_rows import E2E_MOST_US, TTFT_MOST_US, Rows, fill_all
from tests.integration.answers import ANSWERS, goodput

pytestmark = [pytest.mark.integration, pytest.mark.tables]

HOURS = 26


def differs(right: Any, got: Any) -> bool:
    """Whether an answer is not what it should be, as far as its digits go; null is null here."""
    if isinstance(got, Shown) and got.value is None:
        got = None
    if isinstance(right, (int, float)) and not isinstance(right, bool):
        right = Value(right, right)
    if not isinstance(right, Value):
        return bool(got != right)
    return got is None or not right.holds(got)


@pytest.fixture
def rows(clickhouse: Any) -> Rows:
    """Everything that questions are about, of more than a day."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    return fill_all(clickhouse, now_ms // MINUTE_MS * MINUTE_MS - 5 * MINUTE_MS)


def test_every_question_is_answered_as_single_rows_say(clickhouse: Any, rows: Rows) -> None:
    """All rows of the answer, each column that single rows can say; over a day, and over the last ten minutes.

    What windows say of objectives single requests say too."""
    wrong, compared = [], dict.fromkeys(numbered(), 0)
    for span_ms in (HOURS * HOUR_MS, 10 * MINUTE_MS):
        bounds = {"from_ms": rows.until_ms - span_ms, "to_ms": rows.until_ms}
        bounds |= {"before_from_ms": bounds["from_ms"] - span_ms, "before_to_ms": bounds["from_ms"]}
        for number, one in numbered().items():
            query = bound(one.sql(span_ms, bounds), one.known(), (), bounds)
            answer = list(clickhouse.query(query.sql, parameters=query.parameters).named_results())
            keys, counted = ANSWERS[one.query]
            expected = counted(rows, **bounds, **one.given)
            got = {tuple(row[key] for key in keys): shown(query.sql, row) for row in answer}
            right = {tuple(row[key] for key in keys): row for row in expected}
            compared[number] += sum(len(row) - len(keys) for row in right.values())
            if got.keys() != right.keys() or len(answer) != len(expected):
                wrong.append((number, one.query, sorted(map(str, got)), sorted(map(str, right))))
                continue
            wrong += [
                (number, one.query, key, name, got[key][name], value)
                for key, row in right.items()
                for name, value in row.items()
                if differs(value, row[name] if name in keys else got[key][name])
            ]

        objectives = {"slo_classes": ["interactive", "batch"], "slo_ttft_us": [TTFT_MOST_US] * 2}
        objectives |= {"slo_tpot_us": [None] * 2, "slo_e2e_us": [E2E_MOST_US] * 2}
        answer = clickhouse.query(queries.text("cost_goodput"), parameters=objectives | bounds).named_results()
        single = {row["slo_class"]: row for row in answer}
        wrong += [
            (row, single[row["slo_class"]])
            for row in goodput(rows, **bounds)
            for name in ("good", "missed", "failed", "left_out", "good_tokens")
            if row[name] != single[row["slo_class"]][name]
        ]

    assert wrong == []
    assert [number for number, count in compared.items() if not count] == []
