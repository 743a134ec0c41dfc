"""What a spool keeps of acknowledgements: read back whole, or refused without leaving anything open."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from producers.spool import ack_state as module
from producers.spool.ack_state import AckState
from producers.spool.books import Tally
from producers.spool.frame import Spooled
from producers.spool.slots import Slots
from producers.spool.spool import Spool
from schemas.errors import ContractError

TOPICS = ("gpu.samples", "host.samples", "llm.requests", "logs")


MEMORY = Path("/dev/shm")
"""Where a file is synced at once: there are hundreds of openings here."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a spool may lie."""
    made = Path(tempfile.mkdtemp(prefix="fleetpulse-spool-", dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint with room for some 100 boots and topics, of which some are left to what is shed."""
    monkeypatch.setattr(module, "_CHECKPOINT_BYTES", 5 * 1024)
    monkeypatch.setattr(module, "_SPARE_BYTES", 512)
    monkeypatch.setattr(module, "_FINISHED_BOOTS_MAX", 5)


@contextmanager
def opened(folder: Path) -> Iterator[Spool]:
    """A spool whose process is killed at the end."""
    spool = Spool.open(folder)
    try:
        yield spool
    finally:
        spool.abandon()


class Table:
    """Books as ClickHouse keeps them: of each source, boot and topic the greatest amounts."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int, str], Tally] = {}

    def land(self, spool: Spool) -> None:
        """What a publisher of this spool says."""
        for (boot, topic), tally in spool.books.items():
            row = self.rows.setdefault((spool.identity.source_of(boot), boot, topic), Tally())
            row.events = max(row.events, tally.events)
            row.shed_events = max(row.shed_events, tally.shed_events)

    def shed(self) -> Counter[str]:
        """By topic."""
        return sum((Counter({topic: it.shed_events}) for (_, _, topic), it in self.rows.items()), Counter())


def written(folder: Path, name: str, value: bytes) -> None:
    """A value that is whole by its checksum."""
    state = AckState(folder)
    state.close()
    slots = Slots.open(folder / name, (folder / name).stat().st_size // 2)
    slots.write(value)
    slots.close()


@pytest.mark.parametrize("name", ["checkpoint", "shed"])
@pytest.mark.parametrize("value", [b"{", b"[]", b'{"low": [1, 2]}', b'[1, {"t": "x"}, 2]', b"\xff"])
def test_what_cannot_be_read_leaves_no_descriptor_open(tmp_path: Path, name: str, value: bytes) -> None:
    """An agent tries again for as long as it runs; each try once cost two descriptors."""
    written(tmp_path, name, value)
    before = len([*Path("/proc/self/fd").iterdir()])

    for _ in range(3):
        with pytest.raises(ContractError, match=f"{name} cannot be read"):
            AckState(tmp_path)

    assert len([*Path("/proc/self/fd").iterdir()]) == before


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kafka", ["away", "there now and then"])
def test_a_crash_loop_on_a_full_spool_declares_all_that_it_sheds(folder: Path, kafka: str) -> None:
    """Every start opens, though each once added a row for each topic; whatever of the books landed meanwhile, and
    though the publisher was killed before it knew."""
    chance, table, shed = random.Random(5), Table(), Counter[str]()
    for _ in range(80):
        with opened(folder) as spool:
            for topic in chance.sample(TOPICS, 3):
                spool.shed(topic, 7)
                shed[topic] += 7
            if kafka != "away" and chance.random() < 0.2:
                table.land(spool)
            if chance.random() < 0.3:
                spool.save()
    with opened(folder) as spool:
        boots = len({boot for boot, _ in spool.books})
        table.land(spool)
        spool.books_delivered(list(spool.books))
        spool.shed(TOPICS[0], 7)
        shed[TOPICS[0]] += 7
        spool.save()
        table.land(spool)
    with opened(folder) as spool:
        spool.shed(TOPICS[1], 7)
        shed[TOPICS[1]] += 7
        table.land(spool)

    assert table.shed() == shed
    assert 10 < boots < 80
    assert (spool.boot, TOPICS[1]) in spool.books  # there is room again


@pytest.mark.usefixtures("small")
def test_a_copy_declares_under_a_boot_of_its_own(folder: Path) -> None:
    """Its original goes on under the last: amounts of both would be one row."""
    table = Table()
    for _ in range(30):
        with opened(folder / "one") as spool:
            for topic in TOPICS:
                spool.shed(topic, 1)
    shutil.copytree(folder / "one", folder / "two")
    for name in ("one", "two") * 2:
        with opened(folder / name) as spool:
            spool.shed(TOPICS[0], 1)
            table.land(spool)

    assert table.shed() == Counter(dict.fromkeys(TOPICS, 30)) + Counter({TOPICS[0]: 4})


@pytest.mark.usefixtures("small")
def test_a_checkpoint_that_an_older_release_filled_is_opened(folder: Path) -> None:
    """What its last boot shed does not fit any more: it stays where it was declared, and grows there."""
    with opened(folder):
        pass
    rows: list[list[object]] = []
    table = Table()
    checkpoint = Slots.open(folder / "checkpoint", module._CHECKPOINT_BYTES)
    while len(value := json.dumps({"low": [0, 0], "first_segment": 0, "books": rows}).encode()) < checkpoint.room - 100:
        rows.append([len(rows) + 2, TOPICS[3], 0, 0, 0, 1])
    checkpoint.write(value)
    checkpoint.close()
    declared = Slots.open(folder / "shed", module._SHED_BYTES)
    declared.write(json.dumps([1, dict.fromkeys(TOPICS, 3)]).encode())
    declared.close()

    for _ in range(3):
        with opened(folder) as spool:
            spool.shed(TOPICS[0], 1)
            table.land(spool)
            spool.books_delivered(list(spool.books))
            spool.save()

    assert table.shed() == Counter(dict.fromkeys(TOPICS, 3)) + Counter({TOPICS[3]: len(rows), TOPICS[0]: 3})


def test_a_save_that_knows_more_than_a_declaration_is_believed(folder: Path) -> None:
    """A power cut takes the declaration, which is not synced, and leaves the save."""
    with opened(folder) as spool:
        spool.shed(TOPICS[0], 5)
        before = (folder / "shed").read_bytes()
        spool.shed(TOPICS[0], 6)
        spool.save()
    (folder / "shed").write_bytes(before)

    with opened(folder) as spool:
        assert spool.books == {(1, TOPICS[0]): Tally(0, 0, 0, 11)}


@pytest.mark.usefixtures("small")
def test_many_short_boots_leave_as_the_books_get_room(folder: Path) -> None:
    """All of them are acknowledged between two saves: the oldest go first, the others once books are delivered."""
    table = Table()
    for _ in range(160):
        with opened(folder) as spool:
            spool.append(Spooled(0, 0, 5, TOPICS[0], 1, "s/1", "t", b"h", 2, b"v"))
    with opened(folder) as spool:
        spool.acknowledge(spool.take())
        left: list[int] = []
        while not left or left[-1] > 1:
            spool.save()
            left.append(len([*(folder / "segments").iterdir()]))
            table.land(spool)
            spool.books_delivered([key for key, tally in spool.books.items() if tally.settled])
            assert len(left) < 20
    with opened(folder) as spool:
        waiting = spool.unacknowledged_records
        table.land(spool)

    assert left == sorted(left, reverse=True)
    assert (waiting, sum(it.events for it in table.rows.values())) == (0, 320)
