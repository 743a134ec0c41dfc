"""A log that is written and rotated while its reader is killed: every line is spooled, few twice.

Twenty kills; for the long run: ``FLEETPULSE_KILLS=500 python -m pytest tests/integration/test_log_tail_kill.py``.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from producers.spool.spool import Spool
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.events.event_types import LLM_REQUESTS

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("FLEETPULSE_KILLS", "20"))
SEED = 5
CHUNK_BYTES = 4_096
LINE_BYTES = 40
WORKER = f"""
import asyncio, sys
from pathlib import Path
from producers.log_tail.service import run_log_tail
from producers.log_tail.tail import LogTailSettings
from producers.publish.publisher import Publisher
from producers.spool.spool import Spool
from runtime.config import KafkaConfig

async def main(folder):
    fields = {{"at_ms": "t ms", "model": "=m", "request_id": "id"}}
    settings = LogTailSettings(folder / "requests.log", folder / "position", fields, {{"host": "h"}}, from_start=True,
                               poll_ms=1, rotated_ms=20, chunk_bytes={CHUNK_BYTES}, line_bytes_max=1_000)
    publisher = Publisher(Spool.open(folder / "spool"), KafkaConfig(), host="h")  # never started: nothing is sent
    print("ready", flush=True)
    await run_log_tail(publisher, settings, asyncio.Event())

asyncio.run(main(Path(sys.argv[1])))
"""


class Log:
    """Written line by line; rotated by renaming."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "requests.log"
        self.written = 0
        self._rotations = 0

    def write(self, lines: int) -> None:
        with self.path.open("a") as file:
            for _ in range(lines):
                line = f'{{"t": {1_700_000_000_000 + self.written}, "id": "r{self.written:09}"}}'
                file.write(line + "\n")
                self.written += 1

    def rotate(self) -> None:
        self._rotations += 1
        self.path.rename(self.folder / f"requests.log.{self._rotations}")


def test_no_line_is_lost_by_kills_and_at_most_a_chunk_each_comes_twice(tmp_path: Path) -> None:
    """The spool of all the reader's lives holds every line of the log."""
    rng = random.Random(SEED)
    log = Log(tmp_path)
    log.write(10)
    moved = 0
    for kill in range(KILLS):
        before = position(tmp_path)
        reader = start(tmp_path)
        if kill % 2 == 0:
            wait_for_a_move(tmp_path, log, before)
        until_s = time.monotonic() + rng.uniform(0, 0.3)
        rotation_s = time.monotonic() + 0.1 if kill % 2 else float("inf")
        while time.monotonic() < until_s:
            log.write(rng.randrange(50))
            time.sleep(0.001)
            if time.monotonic() > rotation_s:
                rotation_s = float("inf")
                log.rotate()
        kill_it(reader)
        moved += position(tmp_path) != before
    log.write(1)
    reader = start(tmp_path)
    wait_for_the_end(tmp_path, log)
    kill_it(reader)

    found = spooled(tmp_path / "spool")
    twice = sum(times - 1 for times in found.values())
    assert set(found) == {f"r{number:09}" for number in range(log.written)}
    assert twice <= (KILLS + 1) * CHUNK_BYTES // LINE_BYTES
    assert moved >= KILLS // 2


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(folder)]
    reader = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    return reader


def kill_it(reader: subprocess.Popen[str]) -> None:
    reader.send_signal(signal.SIGKILL)
    with reader:
        reader.wait()


def position(folder: Path) -> bytes:
    """The kept one; nothing before the first."""
    path = folder / "position"
    return path.read_bytes() if path.exists() else b""


def wait_for_a_move(folder: Path, log: Log, before: bytes) -> None:
    """Until a life has kept another position than the one before; lines come meanwhile."""
    until_s = time.monotonic() + 60
    while position(folder) == before:
        assert time.monotonic() < until_s, "the position stays where it was"
        log.write(1)
        time.sleep(0.01)


def wait_for_the_end(folder: Path, log: Log) -> None:
    """Until the kept position is at the end of the newest file."""
    at_the_end = f'"inode":{log.path.stat().st_ino},"offset":{log.path.stat().st_size},'.encode()
    until_s = time.monotonic() + 60
    while at_the_end not in (folder / "position").read_bytes():
        assert time.monotonic() < until_s, "the log is not read to its end"
        time.sleep(0.02)


def spooled(folder: Path) -> Counter[str]:
    """How often each request was spooled."""
    found = Counter[str]()
    spool = Spool.open(folder)
    spool.sync()
    while records := spool.take():
        for record in records:
            rows = rows_of(LLM_REQUESTS.fields, decode(record.value, LLM_REQUESTS.fields))
            found.update(row["request_id"] for row in rows)
        spool.acknowledge(records)
    spool.close()
    return found
