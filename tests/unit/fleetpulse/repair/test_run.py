"""A repair that is ended leaves notes of what is to be computed again. Servers are in tests/integration."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse.repair import run
from runtime.config import ClickHouseConfig
from schemas.errors import ConfigError, UnavailableError
from schemas.limits import DEFAULT_LIMITS, HOUR_MS

TABLE = "llm_requests_partials"
HOURS = (HOUR_MS, 2 * HOUR_MS)


class Copy:
    """A copy of one table: ``hours`` that it holds. The second hour that is inserted meets a server that is gone."""

    def __init__(
        self, log: list[str], hours: tuple[int, ...], unfinished: list[Any] | None = None, table: str = TABLE
    ) -> None:
        self.log, self.hours, self.unfinished, self.table = log, hours, unfinished or [], table

    def query(self, sql: str, **_more: Any) -> Any:
        if "sorting_key" in sql:
            return SimpleNamespace(result_rows=[(self.table, "log_id")], summary={})
        if "system.columns" in sql:
            return SimpleNamespace(result_rows=[(TABLE, ["window_ms", "log_id"])], summary={})
        return SimpleNamespace(result_rows=[(hour_ms, 1, 1, 0) for hour_ms in self.hours], summary={})

    def raw_stream(self, *_asked: Any, **_more: Any) -> Any:
        return io.BytesIO()

    def raw_insert(self, *_rows: Any, **_more: Any) -> Any:
        if "copied" in self.log:
            raise UnavailableError("gone")
        self.log.append("copied")
        return SimpleNamespace(written_rows=1)

    def rows(self, _sql: str) -> list[Any]:
        return self.unfinished

    def sync(self, table: str) -> None:
        """It has what other replicas have."""

    def insert_rows(self, _table: str, _columns: Any, rows: Any) -> None:
        self.log.append(f"noted from {rows[0][2]}")

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to a target that lacks both hours; a repair before has left two buckets."""
    done: list[str] = []

    @contextlib.contextmanager
    def unlocked() -> Iterator[None]:
        yield

    def noted(_config: ClickHouseConfig, *, consistent: bool = False, **_more: Any) -> Copy:
        assert consistent, "a replica that lags lacks notes of a repair that was ended"
        return Copy(done, (), [("repair-a", "llm.requests", minute_ms) for minute_ms in (0, 60_000)])

    copies = [Copy(done, HOURS), Copy(done, ())]
    monkeypatch.setattr(run, "connect", lambda _config, **_more: copies.pop(0))
    monkeypatch.setattr(run, "SinkDatabase", noted)
    monkeypatch.setattr(run, "in_a_line", unlocked)
    return done


def test_hours_are_noted_before_and_behind_their_copy(log: list[str]) -> None:
    """So that one that was copied when the repair ended, and lacks nothing any more, is computed again."""
    with pytest.raises(UnavailableError):
        run.repair(ClickHouseConfig(), ClickHouseConfig(), (0, 3 * HOUR_MS), DEFAULT_LIMITS)

    assert log == [f"noted from {HOUR_MS}", "copied", f"noted from {HOUR_MS}", f"noted from {2 * HOUR_MS}"]


@pytest.mark.parametrize(("source", "target", "ahead"), [(HOURS, (), 0), ((), HOURS, 2), (HOURS[:1], HOURS, 1)])
def test_tables_that_are_compared_are_told_with_what_the_source_lacks(
    source: tuple[int, ...], target: tuple[int, ...], ahead: int, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a repair the wrong way round does not say that all is well."""
    copies = [Copy(log, source), Copy(log, target)]
    monkeypatch.setattr(run, "connect", lambda _config, **_more: copies.pop(0))
    login = ClickHouseConfig()

    found = run.repair(login, login, (0, 3 * HOUR_MS), DEFAULT_LIMITS, dry_run=True)

    assert found.ahead == {TABLE: ahead}


def test_the_source_has_what_its_replicas_have_before_it_is_compared(
    log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lags would seem to have all that it has, and hours would be copied in part."""
    there, here = ClickHouseConfig(url="http://a:8123"), ClickHouseConfig(url="http://b:8123")
    synced: list[str] = []

    class Lagging(Copy):
        def query(self, sql: str, **more: Any) -> Any:
            self.hours = HOURS if synced else ()
            return super().query(sql, **more)

    class Synced(Copy):
        def sync(self, table: str) -> None:
            synced.append(table)

    copies = {there.url: Lagging(log, ()), here.url: Copy(log, ())}
    monkeypatch.setattr(run, "connect", lambda config, **_more: copies[config.url])
    monkeypatch.setattr(
        run, "SinkDatabase", lambda config, **_more: Synced(log, ()) if config == there else Copy(log, ())
    )

    found = run.repair(there, here, (0, 3 * HOUR_MS), DEFAULT_LIMITS, dry_run=True)

    assert (found.filled, synced) == ([run.Filled(TABLE, 2, None)], [TABLE])


def test_a_source_without_our_tables_is_refused(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty, or with its tables over shards that the configuration does not name: nothing would be compared."""
    copies = [Copy(log, HOURS, table=f"{TABLE}_local"), Copy(log, ())]
    monkeypatch.setattr(run, "connect", lambda _config, **_more: copies.pop(0))
    login = ClickHouseConfig()

    with pytest.raises(ConfigError, match=r"--from .* must have our tables"):
        run.repair(login, login, (0, 3 * HOUR_MS), DEFAULT_LIMITS)


def test_a_dry_run_says_what_a_repair_before_left_and_changes_nothing(
    log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Hours that differ, and buckets that would be computed again."""
    login = ClickHouseConfig()

    found = run.repair(login, login, (0, 3 * HOUR_MS), DEFAULT_LIMITS, dry_run=True)

    (said,) = caplog.records
    assert found.filled == [run.Filled(TABLE, 2, None)]
    assert (said.levelname, vars(said)["buckets"], log) == ("WARNING", 2, [])
