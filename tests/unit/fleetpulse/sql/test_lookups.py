"""Lookups beside an answer are made only where they can say something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleetpulse.queries.data_ends import Lack
from fleetpulse.sql.database import Answer
from fleetpulse.sql.lookups import NAMES_OF_MS, in_full, lacking, names, unknown_names
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, MINUTE_MS


class Recording:
    """Answers each query with the same, and keeps what was bound."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.bound = answer, list[dict[str, Any]]()

    def sql(self, text: str, parameters: Mapping[str, Any] | None = None) -> Answer:
        self.bound.append(dict(parameters or {}))
        return self.answer


def test_what_a_range_lacks_is_asked_from_its_start() -> None:
    """Of no kind, nothing is asked."""
    columns = ("kind", "first_ms", "before_ms", "next_ms", "last_ms")
    database = Recording(Answer(columns, (("requests", 0, MINUTE_MS, None, MINUTE_MS),)))
    asked = (DAY_MS, 2 * DAY_MS)

    assert lacking(database, (), asked) is None
    assert lacking(database, ["requests"], asked) == Lack(("requests",), asked, ((0, 2 * MINUTE_MS),))
    assert database.bound == [{"from_ms": DAY_MS}]


def test_names_are_of_thirty_days_at_least() -> None:
    """Without a word that may be one nothing is asked."""
    database = Recording(Answer(("kind", "name", "seen"), (("model", "llama", 7),)))

    assert names(database, [], (0, 1)) == []
    assert names(database, ["lla"], (0, 90 * DAY_MS)) == [{"kind": "model", "name": "llama", "seen": 7}]
    names(database, ["lla"], (90 * DAY_MS, 91 * DAY_MS))
    assert [one["from_ms"] for one in database.bound] == [0, 91 * DAY_MS - NAMES_OF_MS]
    assert database.bound[0]["parts"] == ["lla"]


def test_parts_of_names_become_names() -> None:
    """Of the kind that the parameter names; what is no name's part stays, and nothing is looked up for what is none."""
    names = ("llama-3.3-70b-instruct", "qwen2.5-coder-7b", "qwen2.5-coder-32b", "qwen")
    rows = [*(("model", name, 1) for name in names), ("tenant", "llama-farm", 1)]
    database = Recording(Answer(("kind", "name", "seen"), tuple(rows)))

    def found(*params: str) -> list[str]:
        return in_full(lambda: database, params, (90 * DAY_MS, 90 * DAY_MS))

    assert found("model=llama-70b", "top=5") == ["model=llama-3.3-70b-instruct", "top=5"]
    assert found("model=QWEN", "tenant=llama") == ["model=qwen", "tenant=llama-farm"]
    assert found("model=gpt", "tenant=") == ["model=gpt", "tenant="]
    with pytest.raises(ConfigError, match=r"may mean model qwen2\.5-coder-7b or qwen2\.5-coder-32b: say which"):
        found("model=qwen2.5-coder")
    asked = len(database.bound)
    assert found("top=5", "model=") == ["top=5", "model="]
    assert len(database.bound) == asked


def test_names_that_a_value_may_be_a_part_of_are_said() -> None:
    """Of the whole range; not of a value that is a name, nor where none is near: it may be too new to be known."""
    rows = [("tenant", name, 1) for name in ("team-alpha", "team-beta", "acme")]
    database = Recording(Answer(("kind", "name", "seen"), tuple(rows)))
    asked = (0, 60 * DAY_MS)

    said = unknown_names(database, {"tenant": "team-a", "model": "zebra", "host": "", "top": "5"}, asked)

    assert said == ["tenant=team-a is taken as it is; it may mean tenant team-alpha"]
    assert [one["from_ms"] for one in database.bound] == [0]
    assert unknown_names(database, {"tenant": "acme"}, asked) == []
    assert len(database.bound) == 2
    assert unknown_names(database, {"from_ms": "5"}, asked) == []
    assert len(database.bound) == 2
