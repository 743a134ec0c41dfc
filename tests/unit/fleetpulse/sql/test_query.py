"""What ``fleetpulse query`` asks: names, parameters, ranges.

Covers fleetpulse.commands.query.
"""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from fleetpulse import queries
from fleetpulse.cli import app
from fleetpulse.sql.database import Answer
from fleetpulse.sql.query import Query, at_limit, parameters_of, query_of
from schemas.errors import ConfigError

NONE = Answer((), ())
NOW_MS, HOUR_MS = 1_700_000_000_000, 3_600_000


def test_sql_is_taken_as_it_is() -> None:
    """Nothing is added, and without parameters_of no parameters are sent."""
    assert query_of(" SELECT 1 ", (), NOW_MS, HOUR_MS) == Query("SELECT 1", {})


def test_a_name_is_its_query_over_the_range() -> None:
    """``--last`` fills the parameters_of that mean it."""
    found = query_of("throughput_by_model", (), NOW_MS, HOUR_MS)

    assert found.sql == queries.text("throughput_by_model")
    assert found.parameters == {"from_ms": str(NOW_MS - HOUR_MS), "to_ms": str(NOW_MS)}


def test_a_parameter_goes_before_the_range_and_is_not_written_into_the_sql() -> None:
    """The value stays beside the query, whatever it holds."""
    sql = "SELECT {who:String}, {from_ms:Int64}"

    assert query_of(sql, ("who=x'; DROP TABLE t; --", "from_ms=7"), NOW_MS, HOUR_MS) == Query(
        sql, {"who": "x'; DROP TABLE t; --", "from_ms": "7"}
    )


def test_the_range_before_follows_from_bounds_that_are_given() -> None:
    """As long as that of the answer, just before it; an end alone moves the range."""
    sql = "SELECT {from_ms:Int64}, {to_ms:Int64}, {before_from_ms:Int64}, {before_to_ms:Int64}"

    def ends(*params: str) -> list[int]:
        return [int(value) for value in query_of(sql, params, NOW_MS, HOUR_MS).parameters.values()]

    assert ends("from_ms=7000", "to_ms=9000") == [7_000, 9_000, 5_000, 7_000]
    assert ends(f"to_ms={HOUR_MS * 9}") == [HOUR_MS * 8, HOUR_MS * 9, HOUR_MS * 7, HOUR_MS * 8]
    assert ends() == [NOW_MS - HOUR_MS, NOW_MS, NOW_MS - 2 * HOUR_MS, NOW_MS - HOUR_MS]


def test_a_name_is_asked_for_as_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never another that begins with it, whatever is there."""
    asked: list[Query] = []
    monkeypatch.setattr("fleetpulse.sql.query.rows", lambda _login, query, _most: asked.append(query) or (NONE, False))
    monkeypatch.setattr("fleetpulse.sql.lookups.names", lambda *_: [{"kind": "tenant", "name": "team-alpha"}])

    done = CliRunner().invoke(app, ["query", "tokens_changed", "-p", "tenant=team-a", "-p", "model=", "--json"])

    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    assert [one.parameters["tenant"] for one in asked] == ["team-a"]


def test_a_range_does_not_begin_before_the_epoch() -> None:
    """However far back it is query_of for."""
    assert query_of("SELECT {from_ms:Int64}", (), 5, 10).parameters == {"from_ms": "0"}


@pytest.mark.parametrize(
    ("text", "params", "says"),
    [
        ("percentiles_bymodel", (), "percentiles_by_model"),
        ("../demo/run", (), "neither SQL nor a ready-made query"),
        ("SELECT {a:Int64}", (), r"a \(Int64\).*must be given"),
        ("SELECT {model:String}", ("modle=x",), "must be a parameter of the query: model"),
        ("SELECT 1", ("a=1",), "it has none"),
        ("SELECT {a:Int64}", ("a",), "must be name=value"),
        ("SELECT {a:Int64}", ("=1",), "must be name=value"),
    ],
    ids=["nearly a name", "a path", "missing", "misspelt", "no parameters_of", "no value", "no name"],
)
def test_what_cannot_be_asked_says_what_would_be_right(text: str, params: tuple[str, ...], says: str) -> None:
    """Before the server is query_of."""
    with pytest.raises(ConfigError, match=says):
        query_of(text, params, NOW_MS, HOUR_MS)


@pytest.mark.parametrize(
    ("query", "count", "says"),
    [
        (Query("SELECT 1\nLIMIT 20", {}), 20, "the first 20 rows are shown, the most that this query gives"),
        (Query("SELECT 1\nLIMIT 20\n", {}), 19, ""),
        (Query("SELECT 1\nLIMIT 8 BY d\nLIMIT 40", {}), 40, "the first 40 rows"),
        (Query("SELECT 1\nLIMIT {top:UInt32}\nSETTINGS a = 1", {"top": "50"}), 50, "gives; -p top=N for more"),
        (Query("SELECT (\n SELECT 1\nLIMIT 1)", {}), 1, ""),
        (Query("SELECT 1", {}), 0, ""),
    ],
)
def test_an_answer_as_long_as_its_query_gives_is_said_to_be(query: Query, count: int, says: str) -> None:
    """There may be more, whatever the limit is written as."""
    found = at_limit(query, count)

    assert says in found
    assert bool(found) == bool(says)


def test_every_limit_of_a_ready_made_query_is_known() -> None:
    """Those at the end, which cut the answer."""
    with_limit = [name for name in queries.names() if re.search(r"^LIMIT \S+$", queries.text(name), re.MULTILINE)]

    assert with_limit
    for name in with_limit:
        (*_, most) = re.findall(r"^LIMIT (\S+)$", queries.text(name), re.MULTILINE)
        assert at_limit(Query(queries.text(name), {}), int(most)), name


def test_places_have_their_types() -> None:
    """Types with brackets and spaces too."""
    assert parameters_of("{a:Array(String)} {b : DateTime64(3, 'UTC')}") == {
        "a": "Array(String)",
        "b": "DateTime64(3, 'UTC')",
    }


def test_without_sql_the_ready_made_queries_are_listed() -> None:
    """Every name with what it answers and its parameters."""
    done = CliRunner().invoke(app, ["query", "--json"])

    listed = json.loads(done.output)
    assert (done.exit_code, tuple(one["name"] for one in listed)) == (0, queries.names())
    assert next(one for one in listed if one["name"] == "errors_by_kind") == {
        "name": "errors_by_kind",
        "says": "Why requests were not answered in full over a range, and where.",
        "params": {"from_ms": "Int64", "to_ms": "Int64"},
    }
