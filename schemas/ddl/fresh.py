"""An empty database with all tables and views."""

from __future__ import annotations

from schemas.ddl.files import Names, migrations
from schemas.ddl.kept import kept
from schemas.limits import DEFAULT_LIMITS, Limits


def fresh(database: str, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """The statements that make it in an empty ``database``: those of all files, and how long rows are kept."""
    names = Names(database)
    made = [names.fill(statement) for one in migrations() for statement in one.statements]
    return [*made, *(one.statement for one in kept(limits))]
