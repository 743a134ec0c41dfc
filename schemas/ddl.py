"""The database as numbered migrations, made from the field tables.

The files in ``schemas/migrations`` hold what this module makes (``python -m schemas.ddl``); a test keeps both equal.

Every table keeps one row per identity and is read with FINAL behind views:

- partial, books, rejected, exemplar, usage, share and alert rows: their place in the log (log id, partition, offset,
  row);
- cost rows: use, owner, placement group and minute; the version is that of the row itself;
- raw rows: the edge's own identity (source, boot, seq, row), or the log position; of copies the first stands;
- rollup rows: window, grouping set and dimensions; the version is the number of partial rows behind a row;
- rollup rows of books: minute, job, topic, verdict, and the number of lines behind a row; of costs: the minute, and the
  sum of the versions of its bills.

``ddl_tables`` has the tables, ``ddl_views``, ``ddl_alerts`` and ``ddl_costs`` functions and views,
``merging`` how partial rows merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from schemas import (
    book_rollups,
    cost_rollups,
    ddl_alerts,
    ddl_costs,
    ddl_packing,
    ddl_rerated,
    ddl_tables,
    ddl_views,
    gpu_history,
    slowest_hours,
)
from schemas.events import EVENTS
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.tables import GROUPED

FOLDER = Path(__file__).with_name("migrations")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file: statements that are applied once, in order."""

    number: int
    name: str
    statements: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Such as ``0002_raw.sql``."""
        return f"{self.number:04d}_{self.name}.sql"

    @property
    def text(self) -> str:
        """The file: statements separated by a semicolon and an empty line."""
        return ";\n\n".join(self.statements) + ";\n"

    @property
    def checksum(self) -> str:
        """Tells whether the file changed since it was applied."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def replaceable(self) -> bool:
        """Whether it may be applied again when it changed: it holds no data."""
        return all(statement.startswith("CREATE OR REPLACE ") for statement in self.statements)


def migrations(limits: Limits = DEFAULT_LIMITS) -> tuple[Migration, ...]:
    """All migrations in order; ``limits`` say how long rows are kept."""
    books = (ddl_tables.books(limits), ddl_tables.producer_books(limits), ddl_tables.rejected(limits))
    steps = (
        ("functions", tuple(ddl_views.functions())),
        ("raw", tuple(ddl_tables.raw(event, limits) for event in EVENTS)),
        ("partials", tuple(ddl_tables.partials(event, limits) for event in GROUPED)),
        ("books", books),
        ("rollups", (*ddl_tables.rollups(limits), ddl_tables.notes())),
        ("views", tuple(ddl_views.views())),
        ("alerts", (ddl_tables.exemplars(limits), ddl_tables.alerts(limits))),
        ("alert_views", tuple(ddl_alerts.views())),
        ("usage", (ddl_tables.usage(limits),)),
        ("costs", (ddl_tables.costs(limits),)),
        ("cost_views", tuple(ddl_costs.views())),
        ("costs_replaced", (ddl_rerated.replaced(limits),)),
        ("gpu_shares", (ddl_tables.shares(limits),)),
        ("cost_late", (ddl_costs.late(),)),
        ("book_rollups", (*book_rollups.tables(limits), book_rollups.by_time(), book_rollups.note_before())),
        ("cost_rollups", (*cost_rollups.tables(limits), cost_rollups.note_before())),
        ("sketch_codecs", tuple(ddl_tables.sketch_codecs())),
        ("gpu_history", tuple(gpu_history.statements(limits))),
        ("slowest_hours", tuple(slowest_hours.statements(limits))),
        ("request_ids", (ddl_tables.request_ids(),)),
        ("packing", tuple(ddl_packing.statements())),
        ("merges", tuple(ddl_packing.merges())),
        ("packing_repeating", tuple(ddl_packing.repeating())),
    )
    return tuple(Migration(number, name, texts) for number, (name, texts) in enumerate(steps, 1))


def write(folder: Path = FOLDER) -> list[Path]:
    """Write the numbered files anew and return their paths."""
    folder.mkdir(exist_ok=True)
    paths = []
    for migration in migrations():
        path = folder / migration.file_name
        path.write_text(migration.text, encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    write()
