"""The table of bills that a rerate replaced: so that what was billed before can be shown beside what is billed now."""

from __future__ import annotations

from schemas.costs import COST_KEY, COSTS
from schemas.ddl_columns import Column, column_of, create
from schemas.limits import SECOND_MS, Limits
from schemas.stored import LANDED

REPLACED = "token_costs_replaced"


def replaced(limits: Limits) -> str:
    """Rows of ``token_costs`` as they were, each version once, with the rerate that replaced it."""
    columns = [column_of(field, {*COST_KEY, "log_id"}) for field in LANDED[COSTS.schema].fields]
    columns.append(Column("rerate", "LowCardinality(String)", "id of the rerate that replaced it", "ZSTD(1)"))
    behind = (
        "ENGINE = ReplacingMergeTree\n"
        "PARTITION BY toYYYYMM(toDateTime(intDiv(minute_ms, 1000), 'UTC'))\n"
        f"ORDER BY ({', '.join(COST_KEY)}, version)\n"
        f"TTL toDateTime(intDiv(minute_ms, 1000)) + INTERVAL {limits.costs_ttl_ms // SECOND_MS} SECOND\n"
        "SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0"
    )
    return create(
        "CREATE TABLE IF NOT EXISTS", REPLACED, columns, behind, "bills that a rerate replaced; read with FINAL"
    )
