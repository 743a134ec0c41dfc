"""Records of ``costs`` and budgets that the tests of spend share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.record import Output, Record
from schemas.contract.topics import COSTS_TOPIC
from schemas.rows.costs import COSTS
from schemas.rows.spend import SPEND
from stream_jobs.budgets.model import Budget, Budgets, Level

DAY_MS = 86_400_000
DOLLAR = 10**9
LEVELS = (Level(500_000), Level(1_000_000, "hard"))
BUDGETS = Budgets(
    (
        Budget("fleet", 100 * DOLLAR, levels=LEVELS),
        Budget("acme", 10 * DOLLAR, "tenant", "acme", levels=LEVELS),
        Budget("red", 40 * DOLLAR, "team", "red", levels=LEVELS),
    ),
    {"acme": "red", "globex": "red"},
)
Part = tuple[str | None, str | None, int | None]
"""Tenant, model and cost of a part."""
_ZEROS = {field.name: 0 for field in COSTS.fields if field.kind.numpy and not field.kind.optional}


def a_bill(minute_ms: int, parts: Sequence[Part], version: int = 1, owner: str = "e-1") -> dict[str, Any]:
    """A row of ``costs/1``, as far as its spend goes."""
    tenants, models, costs = ([part[i] for part in parts] for i in range(3))
    key = {"minute_ms": minute_ms, "use": "engine", "owner": owner, "placement_group": f"g-{owner}"}
    return {**_ZEROS, **key, "version": version, "part_tenant": tenants, "part_model": models, "part_cost_nusd": costs}


def a_cost_record(offset: int, bills: Sequence[Mapping[str, Any]], source: int = 0, at_ms: int = 7) -> Record:
    """A record of ``costs`` as the cost job writes it."""
    value = native.encode(COSTS.fields, block_from_rows(COSTS.fields, bills))
    headers = (("schema", b"costs/1"), ("source-partition", b"%d" % source))
    return Record(COSTS_TOPIC, 0, offset, at_ms, None, value, headers)


def spend_row(day: int, amount: int, tenant: str | None = None, model: str | None = None) -> dict[str, Any]:
    """A row of ``spend/1``."""
    return {"day_ms": day * DAY_MS, "cost_nusd": amount, "tenant": tenant, "model": model}


def added_up(outputs: Sequence[Output]) -> dict[tuple[int, str | None, str | None], int]:
    """What the rows of these records add up to, by day, tenant and model; nothing that is 0."""
    found: dict[tuple[int, str | None, str | None], int] = {}
    for one in outputs:
        for row in rows_of(SPEND.fields, native.decode(one.value or b"", SPEND.fields)):
            key = row["day_ms"], row["tenant"], row["model"]
            found[key] = found.get(key, 0) + row["cost_nusd"]
    return {key: amount for key, amount in found.items() if amount}
