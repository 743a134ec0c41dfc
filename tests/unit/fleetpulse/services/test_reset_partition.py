"""Which partition of which job is meant, and what is said before it is reset; a real broker shows that it works."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.services import reset_partition
from fleetpulse.services.reset_partition import Booked, Cost, Unread, job_of, place_of
from fleetpulse.sql.database import Answer
from runtime.config import Config
from schemas.errors import ConfigError
from stream_jobs.runner.job import Source
from stream_jobs.runner.reset import Reset


@pytest.mark.parametrize(
    ("text", "place"), [("llm.requests:3", ("llm.requests", 3)), ("window.partials/0", ("window.partials", 0))]
)
def test_a_partition_is_named_as_logs_name_it(text: str, place: tuple[str, int]) -> None:
    """With a colon, as the option says, or with a stroke."""
    assert place_of(text) == place


@pytest.mark.parametrize(
    "text", ["", "llm.requests", "llm.requests:", ":3", "llm.requests:x", "llm.requests:-1", "t:²"]
)
def test_anything_else_is_refused(text: str) -> None:
    """Before anything is looked at."""
    with pytest.raises(ConfigError, match="must be TOPIC:N"):
        place_of(text)


def test_the_job_is_the_one_that_reads_the_topic() -> None:
    """Only where several do it has to be named."""
    assert job_of("llm.requests", None) == "windows"
    assert job_of("window.finals", None) == "alerts"
    assert job_of("window.partials", "costs") == "costs"
    with pytest.raises(ConfigError, match="finals, costs"):
        job_of("window.partials", None)
    with pytest.raises(ConfigError, match=r"must be a job that reads .*: windows"):
        job_of("llm.requests", "alerts")
    with pytest.raises(ConfigError, match="none does"):
        job_of("books", None)


def test_the_state_is_loaded_under_the_files_of_the_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Under the shipped rules alerts of all others would be gone from it."""
    rules, given = tmp_path / "rules.yaml", list[Any]()
    rules.write_text("version: 1")

    async def planned(*_any: Any, files: Any = None, **_more: Any) -> tuple[Any, bool]:
        given.append(_any[5] if len(_any) > 5 else files)
        return None, False

    monkeypatch.setattr("fleetpulse.services.reset_partition.reset_partition", planned)
    CliRunner().invoke(app, ["jobs", "reset", "--partition", "window.finals:0", "--rules", str(rules)])

    assert given == [{"rules": rules}]


def test_what_can_still_be_read_is_said_in_events_and_time() -> None:
    """Beside the offsets that are gone."""
    reset = Reset("llm.requests/3", "log_cut", 10, 10, True, 10, (20, 40), 30)

    lines = Cost("windows", reset, Unread(10, 2_500, 5_000, 65_000)).lines()

    assert reset.unread == (20, 30)
    held = "of them the log still holds 10 records with 2,500 events, appended within 60 s"
    assert lines[-1] == f"{held}: their windows stay without them"


class Log:
    """A log of records with these headers, 10 ms apart; a broker that has it."""

    def __init__(self, *headers: tuple[tuple[str, bytes | None], ...]) -> None:
        self.records = [
            SimpleNamespace(offset=offset, timestamp_ms=10 * offset, headers=each)
            for offset, each in enumerate(headers)
        ]

    async def reader(self, _topic: str, _partition: int, _offset: int) -> Log:
        return self

    async def poll(self) -> SimpleNamespace:
        return SimpleNamespace(records=self.records, position=len(self.records))

    async def close(self) -> None:
        """Nothing is open."""


async def test_headers_that_a_sender_made_up_stop_no_reset() -> None:
    """Such a record is one of those that are left out: of its events nothing is known."""
    counts = [b"3", None, b"", b"x", b"-1", b"\xff", b"9" * 5_000, b"9" * 19, b"4"]
    log: Any = Log(*((("count", count),) for count in counts), ())

    found = await reset_partition._measured(log, Source(*PLACE), (0, 10))

    assert found == Unread(10, 7, 0, 90)


PLACE = ("llm.requests", 3)
BOOKS_OF_BEFORE = [(1_000, 900_000)]
"""(committed, end): of a log that ended at 900,000."""


class Tables:
    """Books of the partition in ClickHouse."""

    def __init__(self, rows: list[tuple[int, int]]) -> None:
        self.rows = rows

    def sql(self, _text: str, given: dict[str, Any]) -> Answer:
        return Answer(("end",), ((max((end for ms, end in self.rows if ms >= given.get("since", 0)), default=0),),))

    def close(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("on_kafka", "rows", "end"),
    [
        pytest.param([(70, 5_000)], [*BOOKS_OF_BEFORE, (5_000, 70)], 70, id="the log was made anew"),
        pytest.param([(60, 4_000), (70, 5_000)], [(4_000, 60), (5_000, 70), (6_000, 80)], 80, id="Kafka lost the last"),
        pytest.param([(70, 5_000)], [(5_001, 65)], 70, id="a worker before had a clock that is ahead"),
        pytest.param([], [(4_000, 60)], 60, id="Kafka has none any more"),
        pytest.param([], [], None, id="nobody knows"),
    ],
)
async def test_books_end_where_those_of_this_log_end(
    on_kafka: list[tuple[int, int]], rows: list[tuple[int, int]], end: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of an older log of the same name would have what the new one holds left out."""
    monkeypatch.setattr(reset_partition, "Database", lambda _config, **_more: Tables(rows))
    monkeypatch.setattr(reset_partition, "open_consumer", lambda _config, **_more: Books(on_kafka))

    assert await reset_partition._books_end(Config(), "windows", PLACE) == end


@pytest.mark.parametrize(("first", "last"), [(0, 3), (3, 0)])
async def test_books_end_in_whichever_partition_the_newest_stand(
    first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topic ``books`` has grown: those of a source partition go to another one since. One consumer asks for all ends,
    and one reads all partitions."""
    stand, opened = {first: [(50, 4_000), (60, 4_500)], last: [(70, 5_000)]}, list[Books]()

    def open_consumer(_config: Any, **_more: Any) -> Books:
        opened.append(Books([], stand))
        return opened[-1]

    monkeypatch.setattr(reset_partition, "Database", lambda _config, **_more: Tables([]))
    monkeypatch.setattr(reset_partition, "open_consumer", open_consumer)

    config = Config(partitions={"books": 4})

    assert await reset_partition._books_end(config, "windows", PLACE) == 70
    assert len(opened) == 2


async def test_the_last_books_of_a_partition_are_the_newest_whatever_their_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Written behind others by a worker whose clock is behind theirs; partitions alone are told apart by time."""
    stand = {0: [(60, 9_000), (70, 5_000)], 2: [(50, 4_000)]}
    monkeypatch.setattr(reset_partition, "open_consumer", lambda _config, **_more: Books([], stand))

    found = await reset_partition._last_on_kafka(Config(partitions={"books": 4}), *PLACE)

    assert found == Booked(70, 5_000)


@pytest.mark.parametrize("offsets", [None, b"", b"7", b"0-", b"0-x", b"\xff-9", b"0-" + b"9" * 5_000])
async def test_books_that_an_edge_made_up_stop_no_reset(offsets: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may write to the topic; what is no line of a commit is passed over."""
    books = Books([(60, 5_000)], made_up=[offsets])
    monkeypatch.setattr(reset_partition, "open_consumer", lambda _config, **_more: books)

    assert await reset_partition._last_on_kafka(Config(), *PLACE) == Booked(60, 5_000)


OF = (("job", b"windows"), ("source-topic", PLACE[0].encode()), ("source-partition", b"%d" % PLACE[1]))


class Books:
    """A consumer of the topic ``books``: (end, written), in its first partition or by partition; ``made_up`` are
    headers of records behind them."""

    def __init__(
        self,
        told: list[tuple[int, int]],
        by_partition: dict[int, list[tuple[int, int]]] | None = None,
        made_up: Sequence[bytes | None] = (),
    ) -> None:
        self.told = {0: told} if by_partition is None else by_partition
        self.made_up = [SimpleNamespace(headers=(*OF, ("offsets", one)), timestamp=9_000) for one in made_up]
        self.places, self.read = list[Any](), False

    async def __aenter__(self) -> Books:
        return self

    async def __aexit__(self, *_any: object) -> None:
        """Nothing."""

    async def end_offsets(self, places: list[Any]) -> dict[Any, int]:
        return {place: len(self.told.get(place.partition, ())) for place in places}

    def assign(self, places: list[Any]) -> None:
        self.places = places

    async def seek_to_beginning(self, *places: Any) -> None:
        assert set(places) == set(self.places)

    async def position(self, place: Any) -> int:
        return len(self.told.get(place.partition, ())) if self.read else 0

    async def getmany(self, *places: Any, **_more: Any) -> dict[Any, list[Any]]:
        self.read = True
        return {
            place: [
                SimpleNamespace(
                    partition=place.partition, headers=(*OF, ("offsets", b"0-%d" % end)), timestamp=written_ms
                )
                for end, written_ms in self.told.get(place.partition, ())
            ]
            + self.made_up
            for place in places or self.places
        }
