"""What waits in the spool of a proxy or agent, read after its end or beside its life."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from producers.spool.spool import Spool, SpoolLimits
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS

Rows = dict[str, list[dict[str, Any]]]


def rows_in(folder: Path) -> Rows:
    """By topic; nobody else may hold the spool."""
    spool = Spool.open(folder, SpoolLimits.of(DEFAULT_LIMITS))
    try:
        records = spool.take()
    finally:
        spool.close()
    rows: Rows = {}
    for record in records:
        fields = BY_TOPIC[record.topic].fields
        rows.setdefault(record.topic, []).extend(rows_of(fields, decode(record.value, fields)))
    return rows


def rows_beside(folder: Path) -> Rows:
    """By topic, of a spool that a living process holds: from a copy; none while it cannot be copied."""
    copy = folder.with_name(f"{folder.name}-copy")
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(folder, copy)
    except (FileNotFoundError, shutil.Error):  # it is not there yet, or a file was replaced meanwhile
        return {}
    return rows_in(copy)
