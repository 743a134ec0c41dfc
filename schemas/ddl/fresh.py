"""An empty database with all tables and views, made at once.

The numbered files make the same (tests/integration/test_migrations.py), with a hundred ALTERs that a table has behind
it over its years: on an empty database these are most of the time.
"""

from __future__ import annotations

from schemas.ddl.declared import declared
from schemas.ddl.files import Names
from schemas.ddl.kept import ONLY_DROP_PARTS, kept
from schemas.ddl.sharded import rendered
from schemas.limits import DEFAULT_LIMITS, Limits

_BEHIND_TTL = "\nSETTINGS "


def at_once(limits: Limits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """The statements, placeholders not filled in, in order: what is declared, and in each table how long its rows are
    kept, and whether they go with their parts alone."""
    found = declared()
    for one in kept(limits):
        head, *rest = found[one.table].split(_BEHIND_TTL)
        assert len(rest) == 1, f"where does the TTL of {one.table} stand?"
        settings = rest[0]
        if one.whole_parts is not None:
            as_made = f"{ONLY_DROP_PARTS} = 1"
            assert as_made in settings, f"where does {one.table} say {as_made}?"
            settings = settings.replace(as_made, f"{ONLY_DROP_PARTS} = {int(one.whole_parts)}")
        found[one.table] = f"{head}\nTTL {one.ttl}{_BEHIND_TTL}{settings}"
    return tuple(found.values())


def fresh(names: Names, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """The statements that make it in an empty database."""
    return [one for statement in at_once(limits) for one in rendered(statement, names)]
