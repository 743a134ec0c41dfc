"""The numbered SQL files in ``schemas/migrations``: what is executed on a database, each file once, in order.

A file never changes once it was released; ``released.sha256`` has the checksums. Statements end in a semicolon at the
end of a line and are safe to repeat, so that a migration that was killed half-way runs again. Lines that begin with
``--`` are comments. Names that an installation chooses are placeholders: ``${database}``, ``${cluster}`` and
``${engine_prefix}`` (``ENGINE = ${engine_prefix}ReplacingMergeTree``); a dollar sign is written ``$$``. Checksums are
of the text with its placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from string import Template

FOLDER = Path(__file__).parents[1] / "migrations"
HISTORY = "migrations"
"""The table that says which files were applied."""
_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Names:
    """What placeholders are filled in with."""

    database: str
    cluster: str = ""
    engine_prefix: str = ""

    def fill(self, statement: str) -> str:
        """The statement without placeholders. Raises ``KeyError`` or ``ValueError`` for one that is none of these."""
        return Template(statement).substitute(asdict(self))


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    number: int
    name: str
    text: str

    @property
    def file_name(self) -> str:
        """Such as ``0002_add_region.sql``."""
        return f"{self.number:04d}_{self.name}.sql"

    @property
    def checksum(self) -> str:
        """SHA-256 of the text: differs when the file changed since it was applied."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> tuple[str, ...]:
        """Statements in order, placeholders not filled in."""
        return statements_of(self.text)


def statements_of(text: str) -> tuple[str, ...]:
    """The statements of a SQL text, without comments."""
    code = "\n".join(line for line in text.split("\n") if not line.startswith("--"))
    return tuple(found for one in code.split(";\n") if (found := one.strip()))


def text_of(statements: Iterable[str]) -> str:
    """A file of these statements."""
    return "\n\n".join(f"{statement};" for statement in statements) + "\n"


def migrations(folder: Path = FOLDER) -> tuple[Migration, ...]:
    """The files of a folder in the order of their numbers."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        named = _FILE.fullmatch(path.name)
        assert named is not None, f"{path} is not named like 0002_what_it_does.sql"
        found.append(Migration(int(named["number"]), named["name"], path.read_text(encoding="utf-8")))
    return tuple(found)


def history() -> str:
    """The table of applied files."""
    return (
        f"CREATE TABLE IF NOT EXISTS {HISTORY}\n(\n"
        "    number UInt32 COMMENT 'number of the file',\n"
        "    name String COMMENT 'its name',\n"
        "    checksum String COMMENT 'SHA-256 of its text when it was applied',\n"
        "    applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') COMMENT 'when'\n)\n"
        "ENGINE = ${engine_prefix}ReplacingMergeTree(applied_at)\nORDER BY number\n"
        "SETTINGS non_replicated_deduplication_window = 0\n"
        "COMMENT 'migrations applied; read with FINAL'"
    )


def released(path: Path = FOLDER / "released.sha256") -> dict[str, str]:
    """Checksums of the files that a release shipped, by their path below the folder."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
