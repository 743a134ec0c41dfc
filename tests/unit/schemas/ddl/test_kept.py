"""How long rows are kept: every table, by the limits of the configuration."""

from __future__ import annotations

from schemas.ddl.declared import declared, made
from schemas.ddl.kept import Kept, kept
from schemas.ddl.stored import kept_of
from schemas.limits import DAY_MS, DEFAULT_LIMITS, Limits


def test_every_table_has_its_ttl() -> None:
    """No table grows for ever, and no TTL is for a table that is not there."""
    tables = [name for name, text in declared().items() if made(text)[0] == "table"]

    assert sorted(one.table for one in kept(DEFAULT_LIMITS)) == sorted(tables)


def test_the_time_of_a_table_is_one_of_its_columns() -> None:
    """A TTL by another column would be refused by the server."""
    statements = declared()
    columns = {one.table: f"\n    {one.column} " in statements[one.table] for one in kept(DEFAULT_LIMITS)}

    assert [table for table, there in columns.items() if not there] == []


def test_limits_say_how_long_rows_are_kept() -> None:
    """A limit that differs from the default is in the statement, and the sink counts by the same one."""
    limits = Limits(raw_ttl_ms=3 * DAY_MS)

    found = {one.table: one.statement for one in kept(limits)}

    wanted = "MODIFY TTL toDateTime(intDiv(appended_ms, 1000)) + toIntervalSecond(259200)"
    assert found["llm_requests"] == f"ALTER TABLE llm_requests {wanted}"
    assert kept_of("llm_requests", limits) == ("appended_ms", 259_200_000)


def test_notes_go_only_when_they_were_dealt_with() -> None:
    """An open note is kept however old it is."""
    assert Kept("dirty_windows", "noted_ms", DAY_MS, where="done >= noted") in kept(DEFAULT_LIMITS)
    assert Kept("t", "at_ms", DAY_MS, where="a >= b").ttl.endswith("toIntervalSecond(86400) WHERE a >= b")
