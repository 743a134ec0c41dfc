"""Write the SQL file that brings databases to what ``schemas/`` declares, for a person to read and commit.

``python -m fleetpulse.migrate.write NAME``: a server of its own makes one database of the files and another of what is
declared, and the difference becomes the next file. A file that no release shipped yet is written again under its name.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from fleetpulse import stack
from fleetpulse.migrate.difference import Difference, difference
from fleetpulse.migrate.schema import DatabaseSchema, read_schema
from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig, load
from runtime.local_stack import WRITER
from schemas.ddl.declared import declared, made
from schemas.ddl.files import FOLDER, Migration, Names, migrations, released, text_of
from schemas.errors import ContractError, FleetpulseError

_HEAD = "-- Written by `make migration`. Read it, change it where you know better, and commit it.\n\n"


def schema_of(client: Any, statements: Sequence[str]) -> DatabaseSchema:
    """The schema that these statements make in an empty database, which is removed again."""
    database = f"fleetpulse_schema_{secrets.token_hex(6)}"
    names = Names(database)
    client.command(f"CREATE DATABASE {database}")
    try:
        for statement in statements:
            client.command(names.fill(statement), settings={"database": database})
        found = read_schema(client, database)
    finally:
        client.command(f"DROP DATABASE {database} SYNC")
    ours = {name for kind, name in map(made, statements) if kind == "function"}
    return replace(found, functions={name: text for name, text in found.functions.items() if name in ours})


def compared(client: Any, files: Sequence[Migration]) -> Difference:
    """What brings a database that these files made to what is declared."""
    wanted = declared()
    has = schema_of(client, [statement for one in files for statement in one.statements])
    return difference(has, schema_of(client, list(wanted.values())), wanted)


@contextlib.contextmanager
def own_server(folder: Path) -> Iterator[Any]:
    """A client of a ClickHouse of the local stack in this folder, stopped at the end."""
    state = stack.start_part(folder, stack.CLICKHOUSE)
    try:
        login = ClickHouseConfig(url=state.clickhouse_url, user=WRITER, password=SecretStr(state.writer_password))
        with connect(login, database=None) as client:  # it may have none of ours
            yield client
    finally:
        stack.down(folder)


def write(client: Any, name: str, folder: Path = FOLDER) -> Path | None:
    """Write the next file, or the last one again where it has this name and was not released; None without a
    difference. Raises ``ContractError`` with what is refused."""
    files = migrations(folder)
    number = len(files) + 1
    if files and files[-1].name == name and files[-1].file_name not in released(folder / "released.sha256"):
        files, number = files[:-1], len(files)
    return _written(compared(client, files), folder / Migration(number, name, "").file_name)


def write_upgrade(client: Any, release: Path, folder: Path = FOLDER) -> Path | None:
    """Write the file that brings a database of an older release, of which ``release`` has the files, behind the
    baseline."""
    return _written(compared(client, migrations(release)), folder / "upgrade" / f"{release.name}.sql")


def _written(found: Difference, path: Path) -> Path | None:
    if found.refused:
        raise ContractError("\n".join(found.refused))
    if not found.statements:
        return None
    path.write_text(_HEAD + text_of(found.statements), encoding="utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 for what is refused, with the reasons."""
    parser = argparse.ArgumentParser(prog="make migration", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", help="what the migration does, such as add_region_to_gpu_samples")
    parser.add_argument("--upgrade-from", type=Path, help="files of 0.1.0: write its way behind the baseline, too")
    given = parser.parse_args(arguments)
    try:
        with own_server(load().data_dir / "migration") as client:
            paths = [write(client, given.name)]
            if given.upgrade_from and len(migrations()) == 1:
                paths.append(write_upgrade(client, given.upgrade_from))
    except FleetpulseError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(map(str, filter(None, paths))) or "nothing to write: files and declaration agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
