"""How long rows are kept: every table, by the limits of the configuration."""

from __future__ import annotations

import pytest

from schemas.ddl import packing
from schemas.ddl.declared import declared, made
from schemas.ddl.fresh import at_once
from schemas.ddl.kept import Kept, kept
from schemas.ddl.stored import RAW, kept_of
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

    found = {one.table: one.statements for one in kept(limits)}

    wanted = "MODIFY TTL toDateTime(intDiv(appended_ms, 1000)) + toIntervalSecond(259200)"
    assert f"ALTER TABLE llm_requests {wanted}" in found["llm_requests"]
    assert kept_of("llm_requests", limits) == ("appended_ms", 259_200_000)


def test_notes_go_only_when_they_were_dealt_with() -> None:
    """An open note is kept however old it is."""
    assert Kept("dirty_windows", "noted_ms", DAY_MS, where="done >= noted") in kept(DEFAULT_LIMITS)
    assert Kept("t", "at_ms", DAY_MS, where="a >= b").ttl.endswith("toIntervalSecond(86400) WHERE a >= b")


def raw_ways(limits: Limits) -> set[bool | None]:
    """How rows of raw tables go."""
    return {one.whole_parts for one in kept(limits) if one.table in {table.name for table in RAW.values()}}


@pytest.mark.parametrize(
    ("days", "whole_parts"), [(7, True), (30, True), (31, False), (32, False), (3_650, False)], ids=str
)
def test_raw_rows_go_with_whole_parts_where_no_two_days_share_one(days: int, *, whole_parts: bool) -> None:
    """A partition has every 32nd day; rows of the one before must be gone when a day begins. Other tables stay as they
    are, by whatever limit."""
    limits = Limits(raw_ttl_ms=days * DAY_MS)

    assert raw_ways(limits) == {whole_parts}
    assert {one.whole_parts for one in kept(limits)} == {whole_parts, None}
    assert raw_ways(Limits(raw_ttl_ms=30 * DAY_MS + 1_000)) == {False}


@pytest.mark.parametrize(("days", "whole_parts"), [(28, True), (29, False)], ids=str)
def test_raw_rows_that_come_late_are_gone_before_the_next_day_too(days: int, *, whole_parts: bool) -> None:
    """Their time to live begins as they come, their partition is that of their own time."""
    limits = Limits(raw_ttl_ms=days * DAY_MS, allowed_lateness_ms=3 * DAY_MS, source_retention_ms=4 * DAY_MS)

    assert raw_ways(limits) == {whole_parts}


def test_how_rows_go_is_set_with_their_ttl() -> None:
    """On tables that are there and on new ones, both ways."""
    long, short = Limits(raw_ttl_ms=40 * DAY_MS), DEFAULT_LIMITS
    of_long, of_short = ({one.table: one for one in kept(limits)} for limits in (long, short))

    assert of_long["llm_requests"].statements == (
        "ALTER TABLE llm_requests MODIFY SETTING ttl_only_drop_parts = 0",
        f"ALTER TABLE llm_requests MODIFY TTL {of_long['llm_requests'].ttl}",
    )
    assert "ALTER TABLE llm_requests MODIFY SETTING ttl_only_drop_parts = 1" in of_short["llm_requests"].statements
    row_by_row = {made(text)[1] for text in at_once(long) if "ttl_only_drop_parts = 0" in text}
    assert row_by_row == {table.name for table in RAW.values()}
    assert [text for text in at_once(short) if "ttl_only_drop_parts = 0" in text] == []


@pytest.mark.parametrize("days", [7, 40], ids=str)
def test_a_table_that_does_not_say_how_rows_go_is_refused(days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be made as the server likes, and altered by the next ``fleetpulse migrate`` at the earliest."""
    monkeypatch.setattr(packing, "RAW_SETTINGS", "allow_nullable_key = 1")

    with pytest.raises(AssertionError, match="say ttl_only_drop_parts = 1"):
        at_once(Limits(raw_ttl_ms=days * DAY_MS))
