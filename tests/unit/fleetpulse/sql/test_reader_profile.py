"""Whose login runs people's SQL, and what limits it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from fleetpulse.sql.reader_profile import LIMITS, login_of_people, profile_xml, statements, unlimited
from runtime.config import ClickHouseConfig, Config
from schemas.errors import ConfigError

WRITER = ClickHouseConfig(url="http://db:8123", user="writer")
READER = ClickHouseConfig(url="http://db:8123", user="people")


def test_people_read_as_the_reader(tmp_path: Path) -> None:
    """Whatever else is allowed."""
    config = Config(data_dir=tmp_path, clickhouse=WRITER, clickhouse_reader=READER)

    assert login_of_people(config) == login_of_people(config, as_writer=True) == READER


def test_people_are_let_into_the_database_that_is_written(tmp_path: Path) -> None:
    """A second deployment's own, where the reader's section names none."""
    config = Config(
        data_dir=tmp_path, clickhouse=WRITER.model_copy(update={"database": "blue"}), clickhouse_reader=READER
    )

    assert login_of_people(config).database == "blue"


def test_people_never_read_as_the_writer_unless_someone_says_so(tmp_path: Path) -> None:
    """The error says what to set, and how to go on without."""
    config = Config(data_dir=tmp_path, clickhouse=WRITER)

    with pytest.raises(ConfigError, match=r"clickhouse_reader.*migrate --reader.*--as-writer"):
        login_of_people(config)
    assert login_of_people(config, as_writer=True) == WRITER


def test_every_limit_is_its_own_constraint() -> None:
    """In the users file: a value that is not 0, as nothing may be without end. Servers that ask others for rows of a
    view send 0 rows of results, which must not become 1."""
    profile = ElementTree.fromstring(profile_xml("reader"))
    values = {one.tag: one.text for one in profile if one.tag in LIMITS}
    bounds = {
        one.tag: (one.findtext("min"), one.findtext("disallowed"), one.findtext("max"))
        for one in profile.findall("constraints/*")
    }

    assert profile.findtext("readonly") == "2"
    assert values == {name: str(most) for name, most in LIMITS.items()}
    assert bounds == {
        name: (None, "0", str(most)) if name == "max_result_rows" else ("1", None, str(most))
        for name, most in LIMITS.items()
    }


def test_the_statements_name_user_and_database_as_they_are() -> None:
    """What would end a name is escaped."""
    profile, *rest = statements("a`b", "fleet`pulse")

    assert all(f"{name} = {most} MIN 1 MAX {most}" in profile for name, most in LIMITS.items())
    assert rest == [
        "ALTER USER `a\\`b` SETTINGS PROFILE 'fleetpulse_reader'",
        "GRANT SELECT, dictGet, SHOW ON `fleet\\`pulse`.* TO `a\\`b` WITH REPLACE OPTION",
    ]


def test_over_shards_a_profile_in_sql_has_no_least_number_of_results() -> None:
    """Which servers would raise to it what others ask them for; every other limit stays as it is."""
    profile, *rest = statements("reader", "fleetpulse", sharded=True)
    alone, *same = statements("reader", "fleetpulse")
    most = LIMITS["max_result_rows"]

    assert profile == alone.replace(f"max_result_rows = {most} MIN 1 MAX", f"max_result_rows = {most} MAX")
    assert rest == same


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (("5", "5"), []),
        (("5", "900"), []),
        (("0", None), ["max_rows_to_read"]),
        (("5", None), ["max_rows_to_read"]),
        (("0", "5"), ["max_rows_to_read"]),
        (("5", "0"), ["max_rows_to_read"]),
        (("auto", "5"), ["max_rows_to_read"]),
    ],
)
def test_a_limit_counts_where_no_statement_can_lift_it(found: tuple[str, str | None], missing: list[str]) -> None:
    """A value of 0 is none, and so is one that may be changed to 0."""
    bound = {name: (str(most), str(most)) for name, most in LIMITS.items()}

    assert unlimited({**bound, "max_rows_to_read": found}) == missing
    assert unlimited({}) == list(LIMITS)
