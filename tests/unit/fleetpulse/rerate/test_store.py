"""A rerate asks the database in the right order, and writes nothing that another bill could stand beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fleetpulse.rerate import store
from fleetpulse.rerate.store import Rerated, rerate
from fleetpulse.sql.database import Answer
from runtime.config import ClickHouseConfig
from schemas.errors import ConfigError
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.prices.model import Prices

MINUTE_MS = 1_795_305_600_000
GPU_ROW = (MINUTE_MS, "e", "h", "inference", "e", "G", "H100", None, None, None, 10_000, 5, 0)
STOOD = ("engine", "e", "e", MINUTE_MS, 1, 7, 0)
"""Key, version, total and revision of a bill."""
LEFT = ("engine", "f", "f", MINUTE_MS, 3, 5, 1)


class Stack:
    """A database that answers by table and remembers everything that was done, in order."""

    def __init__(
        self,
        *,
        gpu: Sequence[tuple[Any, ...]] = (GPU_ROW,),
        stood: Sequence[tuple[Any, ...]] = (),
        open_from_ms: int | None = None,
        unfinished: Sequence[tuple[str, str, int]] = (),
    ) -> None:
        self.did: list[str] = []
        self.connected: list[bool] = []
        self._rows = {"gpu_samples_partials": gpu, "token_costs": stood}
        self._unfinished = unfinished
        self._open = (0, 0) if open_from_ms is None else (3, open_from_ms)

    def connect(self, _config: ClickHouseConfig, *, consistent: bool = False) -> Stack:
        self.connected.append(consistent)
        return self

    def sync(self, table: str) -> None:
        self.did.append(f"sync {table}")

    def sql(self, text: str, _parameters: Mapping[str, Any]) -> Answer:
        if "final = 0" in text:
            self.did.append("read what is not final")
            return Answer((), (self._open,))
        table = text.split(" FROM ")[1].split()[0]
        self.did.append(f"read {table}")
        return Answer((), tuple(self._rows.get(table, ())))

    def named(self, name: str, _parameters: Mapping[str, Any]) -> Answer:
        self.did.append(f"ask {name}")
        return Answer((), ())

    def command(self, sql: str) -> None:
        self.did.append(f"copy to {sql.split()[2]}")

    def insert(self, inserts: Sequence[Any]) -> None:
        self.did.append(f"write {inserts[0].rows}")

    def insert_rows(self, _table: str, _columns: Sequence[str], rows: Sequence[Any]) -> None:
        self.did.append(f"note {rows[0][4]} of {rows[0][2]}")

    def rows(self, _sql: str) -> Sequence[tuple[str, str, int]]:
        return self._unfinished

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def rated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rates a minute on a stack."""

    def on(stack: Stack, *, dry_run: bool = False) -> Rerated:
        for name in ("SinkDatabase", "Database"):
            monkeypatch.setattr(store, name, stack.connect)
        bounds = (MINUTE_MS, MINUTE_MS + 60_000)
        return rerate(ClickHouseConfig(), bounds, Prices(version="v2"), "aa", dry_run=dry_run)

    return on


@pytest.mark.parametrize("dry_run", [False, True])
def test_every_replica_has_all_rows_before_any_is_read(rated: Any, dry_run: bool) -> None:
    """Bills of what one replica has by now would be final and win for ever."""
    stack = Stack()

    rated(stack, dry_run=dry_run)

    assert stack.connected == [True, True]
    synced = [f"sync {name}" for name in ("gpu_samples_partials", "usage", "gpu_shares", "token_costs")]
    assert stack.did[:4] == synced
    assert not set(stack.did[4:]) & set(synced)


@pytest.mark.parametrize("dry_run", [False, True])
def test_minutes_of_which_the_cost_job_owes_bills_are_refused(rated: Any, dry_run: bool) -> None:
    """It would publish them as final later, above what was rated here, with its own prices."""
    stack = Stack(stood=[STOOD], open_from_ms=MINUTE_MS)

    with pytest.raises(ConfigError) as refused:
        rated(stack, dry_run=dry_run)

    assert refused.value.key == "--to"
    assert refused.value.bound == (
        "must be 2026-11-22 or before for now: the cost job has yet to make 3 bills from then on final; "
        "wait until its fleetpulse_cost_through_seconds is half an hour past --to"
    )
    assert stack.did[-1] == "read what is not final"


def test_it_can_be_asked_before_whether_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the rerate itself asks; nothing else is read."""
    stack, bounds = Stack(open_from_ms=MINUTE_MS), (MINUTE_MS, MINUTE_MS + 60_000)
    monkeypatch.setattr(store, "Database", stack.connect)

    with pytest.raises(ConfigError, match="has yet to make 3 bills"):
        store.check_final(ClickHouseConfig(), bounds, DEFAULT_LIMITS)

    assert (stack.connected, stack.did) == ([True], ["read what is not final"])


@pytest.mark.parametrize(
    ("gpu", "stood", "did"),
    [
        ([GPU_ROW], [STOOD, LEFT], ["copy to token_costs_replaced", "write 1"]),
        ([], [LEFT], ["copy to token_costs_replaced"]),
        ([GPU_ROW], [], ["write 1"]),
        ([], [], []),
    ],
    ids=["some left", "all left", "all new", "nothing"],
)
def test_what_stood_is_copied_also_where_nothing_is_rated(rated: Any, gpu: Any, stood: Any, did: list[str]) -> None:
    """The difference by tenant is that of all bills of the range, as the sums are: those that are left are in both."""
    stack = Stack(gpu=gpu, stood=stood)

    found = rated(stack)

    assert [one for one in stack.did if one.startswith(("copy", "write"))] == did
    assert (found.before_nusd, found.left) == (sum(one[5] for one in stood), stood.count(LEFT))


def test_a_dry_run_writes_nothing(rated: Any) -> None:
    """It only reads."""
    stack = Stack(stood=[STOOD, LEFT])

    found = rated(stack, dry_run=True)

    assert not [one for one in stack.did if one.startswith(("copy", "write", "note", "ask"))]
    assert (found.written, found.bills, found.left, found.before_nusd) == (False, 1, 1, 12)


def test_a_bill_of_which_rows_are_gone_is_left_and_named(rated: Any) -> None:
    """It knows a row of an offset beyond all that are stored: the same minute computed again would be a part of it."""
    stack = Stack(stood=[(*STOOD[:6], 5), LEFT])

    found = rated(stack)

    assert not [one for one in stack.did if one.startswith("write")]
    assert (found.bills, found.left, found.after_nusd) == (0, 2, 12)
    assert (found.incomplete, found.incomplete_bills) == (1, (STOOD[:4],))


def test_rollups_are_noted_before_and_behind_the_bills(rated: Any) -> None:
    """Those of a rerate that was killed between them are computed again by the next."""
    stack = Stack(stood=[STOOD], unfinished=[("repair-dead", "costs", 60_000)])

    rated(stack)

    done = [one for one in stack.did if one.startswith(("note", "write"))]
    assert done == ["note 2 of 60000", f"note 1 of {MINUTE_MS}", "write 1", f"note 3 of {MINUTE_MS}"]
