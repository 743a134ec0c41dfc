"""The statements that bring a database from one schema to another: pure.

What cannot be done without losing rows or digits is refused with the reason: a person has to write that migration. What
is written is for a person to read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleetpulse.migrate.schema import ColumnSchema, DatabaseSchema, TableSchema
from schemas.ddl.columns import quoted

_NUMBER = re.compile(r"(U?)Int(\d+)")
_WRAPPED = re.compile(r"(\w+)\((.*)\)")


@dataclass(frozen=True, slots=True)
class Difference:
    """``statements`` with placeholders, in the order in which they can be executed; ``refused`` in words."""

    statements: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def difference(has: DatabaseSchema, wanted: DatabaseSchema, declared: Mapping[str, str]) -> Difference:
    """What brings ``has`` to ``wanted``; ``declared`` are the CREATE statements of what is wanted, by name, in the
    order in which they can be executed."""
    statements: list[str] = []
    refused = [
        f"table {name} is not declared any more: a migration removes no rows. Declare it while somebody may read it"
        for name in has.tables
        if name not in wanted.tables
    ]
    for name, text in declared.items():
        if name in has.tables:
            refused += _refusals(name, has.tables[name], wanted.tables[name])
            statements += _altered(name, has.tables[name], wanted.tables[name])
        elif name in has.copies and has.copies[name] != wanted.copies[name]:
            select = text.split(" AS\n", 1)[1]
            statements.append(f"ALTER TABLE {name}\n    MODIFY QUERY {select}")
        elif name not in has.copies and (name in wanted.tables or _text(has, name) != _text(wanted, name)):
            statements.append(text)
    gone = [name for name in (*has.views, *has.copies) if name not in wanted.views and name not in wanted.copies]
    return Difference((*(f"DROP VIEW IF EXISTS {name}" for name in gone), *statements), tuple(refused))


def _text(schema: DatabaseSchema, name: str) -> str | None:
    return schema.views.get(name) or schema.copies.get(name) or schema.functions.get(name)


def _refusals(name: str, has: TableSchema, wanted: TableSchema) -> Iterator[str]:
    for what, text in wanted.fixed.items():
        if has.fixed[what] != text:
            yield (
                f"the {what} of {name} cannot be altered from {has.fixed[what]} to {text}: declare a table under"
                " another name and copy rows by a statement of your own"
            )
    for column, had in has.columns.items():
        if column not in wanted.columns:
            yield (
                f"column {column} of {name} is not declared any more: a migration removes no values. Declare it as long"
                " as somebody may read it; to rename it, add the other one and copy values by a statement of your own"
            )
        elif not widens(had.type, wanted.columns[column].type):
            yield (
                f"column {column} of {name} cannot become {wanted.columns[column].type} from {had.type}: values may not"
                " fit. Add a column under another name"
            )


def _altered(name: str, has: TableSchema, wanted: TableSchema) -> Iterator[str]:
    changes = [*_columns(has, wanted), *_indexes(has, wanted)]
    if changes:
        yield f"ALTER TABLE {name}\n    " + ",\n    ".join(changes)
    settings = {one: value for one, value in wanted.settings.items() if has.settings.get(one) != value}
    if settings:
        yield f"ALTER TABLE {name}\n    MODIFY SETTING " + ", ".join(f"{o} = {v}" for o, v in settings.items())
    reset = [one for one in has.settings if one not in wanted.settings]
    if reset:
        yield f"ALTER TABLE {name}\n    RESET SETTING " + ", ".join(reset)
    if has.comment != wanted.comment:
        yield f"ALTER TABLE {name}\n    MODIFY COMMENT {_literal(wanted.comment)}"


def _columns(has: TableSchema, wanted: TableSchema) -> Iterator[str]:
    before = None
    for name, column in wanted.columns.items():
        had = has.columns.get(name)
        if had is None:
            yield f"ADD COLUMN IF NOT EXISTS {name} {_defined(column)} " + (f"AFTER {before}" if before else "FIRST")
        elif had != column:
            yield from (f"MODIFY COLUMN {name} REMOVE {what}" for what in _removed(had, column))
            yield f"MODIFY COLUMN {name} {_defined(column)}"
        before = name


def _removed(had: ColumnSchema, column: ColumnSchema) -> Iterator[str]:
    if had.default and not column.default:
        yield had.default.split(" ", 1)[0]
    if had.codec and not column.codec:
        yield "CODEC"


def _defined(column: ColumnSchema) -> str:
    default = f" {column.default}".replace("$", "$$") if column.default else ""
    codec = f" CODEC({column.codec})" if column.codec else ""
    return f"{column.type}{default}{codec} COMMENT {_literal(column.comment)}"


def _literal(text: str) -> str:
    return quoted(text).replace("$", "$$")


def _indexes(has: TableSchema, wanted: TableSchema) -> Iterator[str]:
    for name, text in has.indexes.items():
        if wanted.indexes.get(name) != text:
            yield f"DROP INDEX IF EXISTS {name}"
    for name, text in wanted.indexes.items():
        if has.indexes.get(name) != text:
            yield f"ADD INDEX IF NOT EXISTS {name} {text}"


def widens(had: str, wanted: str) -> bool:
    """Whether every value of the one type is the same value of the other."""
    if had == wanted or wanted in (f"Nullable({had})", f"LowCardinality({had})"):
        return True
    if had == f"LowCardinality({wanted})":
        return True
    number, larger = _NUMBER.fullmatch(had), _NUMBER.fullmatch(wanted)
    if number and larger:
        signed, bits, more = not number[1], int(number[2]), int(larger[2])
        return more > bits and (not larger[1] or not signed)
    inner, outer = _WRAPPED.fullmatch(had), _WRAPPED.fullmatch(wanted)
    if outer and outer[1] == "Nullable" and not inner:
        return widens(had, outer[2])
    if not (inner and outer and inner[1] == outer[1]):
        return False
    parts, others = _parts(inner[2]), _parts(outer[2])
    return len(parts) == len(others) and all(map(widens, parts, others))


def _parts(text: str) -> list[str]:
    """Arguments of a type, split at commas outside of parentheses."""
    found, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [one.strip() for one in found]
