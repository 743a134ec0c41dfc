"""The command line as a hostile or hurried user meets it: servers away, wrong ports, wrong names, pipes and Ctrl-C.

Whatever happens: nothing but data on stdout, one sentence on stderr, exit code 0, 1 or 2, never a traceback.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from fleetpulse.stack import ports
from runtime.local_stack import StackState, write_state
from schemas.contract.headers import NDJSON
from tests.integration.forked import forked
from tests.unused_ports import unused_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

READING = (
    ("tail", "llm.requests"),
    ("rejected", "show", "--json"),
    ("rejected", "replay", "syntax"),
    ("percentiles",),
    ("query", "SELECT 1", "--json"),
)


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETPULSE_")}
    return {**kept, "COLUMNS": "80", **{f"FLEETPULSE_{name}": value for name, value in settings.items()}}


def cli(words: Sequence[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As whoever types it; only one test of a kind needs the interpreter's own beginning and end."""
    return forked(words, environment(**settings), Path.cwd(), timeout_s=240)


def cli_from_the_start(words: Sequence[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetpulse", *words],
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], code: int) -> None:
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.startswith("fleetpulse: ")
    assert done.stderr.count("fleetpulse: ") == 1
    assert "Traceback" not in done.stderr
    assert "Unclosed" not in done.stderr


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port where somebody listens who is neither Kafka nor ClickHouse."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


@pytest.fixture
def away(tmp_path: Path) -> dict[str, str]:
    """Settings that name servers that are not there."""
    free = unused_ports(2)
    return {
        "DATA_DIR": str(tmp_path),
        "KAFKA__BOOTSTRAP": f"127.0.0.1:{free[0]}",
        "CLICKHOUSE__URL": f"http://127.0.0.1:{free[1]}",
        "CLICKHOUSE_READER__URL": f"http://127.0.0.1:{free[1]}",
    }


@pytest.fixture
def there(stack: Any, tmp_path: Path) -> dict[str, str]:
    """Settings of the session's servers, as the user who reads."""
    return {
        "DATA_DIR": str(tmp_path),
        "KAFKA__BOOTSTRAP": stack.kafka_bootstrap,
        "CLICKHOUSE_READER__URL": stack.clickhouse_reader.url,
        "CLICKHOUSE_READER__USER": stack.clickhouse_reader.user,
        "CLICKHOUSE_READER__PASSWORD": stack.clickhouse_reader.password.get_secret_value(),
    }


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_servers_that_are_away_are_one_sentence(words: tuple[str, ...], away: dict[str, str]) -> None:
    """Exit code 1, nothing on stdout, and the address that did not answer."""
    start = cli_from_the_start if words == READING[0] else cli
    done = start(words, away)

    assert_one_sentence(done, 1)
    assert "127.0.0.1:" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tail", "llm.requests", "-n", "0"), "greater than or equal"),
        (("rejected", "show", "--reason", "nonsense"), "must be one of"),
        (("rejected", "replay", "nonsense"), "must be one of"),
        (("percentiles", "--last", "¹h"), "whole number"),
        (("config", "--config", "/nonexistent.toml"), "readable TOML file"),
        (("up", "--nonsense"), "nonsense"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_wrong_use_is_exit_code_two(words: tuple[str, ...], says: str, away: dict[str, str]) -> None:
    """Reported before any server is contacted, with what would be right."""
    start = cli_from_the_start if words[0] == "config" else cli
    done = start(words, away)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_no_stack_at_all_is_a_status(tmp_path: Path) -> None:
    """Exit code 1 with clean JSON, and taking it down is nothing to do."""
    status = cli(("status", "--json"), {"DATA_DIR": str(tmp_path)})
    down = cli(("down",), {"DATA_DIR": str(tmp_path)})

    assert (status.returncode, down.returncode) == (1, 0)
    assert [part["running"] for part in json.loads(status.stdout)["parts"]] == [False, False]


def test_a_taken_port_names_the_flag_that_helps(tmp_path: Path, taken_port: int) -> None:
    """`up` says which port, who has it, and `--new-ports`."""
    chosen = ports.choose(tmp_path)[0]
    write_state(StackState(tmp_path, "x" * 22, replace(chosen, clickhouse_http=taken_port), "w", "r"))
    (tmp_path / "log").mkdir()

    done = cli(("up",), {"DATA_DIR": str(tmp_path)})

    assert_one_sentence(done, 1)
    assert str(taken_port) in done.stderr
    assert "--new-ports" in done.stderr


def test_a_folder_that_cannot_be_made_is_one_sentence() -> None:
    """With the flag that chooses another."""
    done = cli(("up",), {"DATA_DIR": "/proc/nowhere"})

    assert_one_sentence(done, 1)
    assert "--data-dir" in done.stderr


def test_any_answer_of_the_database_is_clean_json(there: dict[str, str]) -> None:
    """Types that JSON has not become text, whole numbers of any size stay numbers."""
    sql = (
        "SELECT now() AS at, toUInt256('1' || repeat('0', 70)) AS big, nan AS none, map(1, 2) AS m, unhex('fffe') AS b,"
        " toDecimal32(1.5, 2) AS d, toIPv4('1.2.3.4') AS ip, '[/red]' AS `[/x]`, NULL AS n"
    )

    as_json, as_table = cli_from_the_start(("query", sql, "--json"), there), cli(("query", sql), there)

    (row,) = json.loads(as_json.stdout)
    assert (row["big"], row["none"], row["m"], row["d"], row["n"]) == (10**70, None, {"1": 2}, "1.50", None)
    assert row["[/x]"] == "[/red]"
    assert (as_json.stderr, as_table.returncode, as_table.stderr) == ("", 0, "")


def test_wrong_sql_is_one_sentence(there: dict[str, str]) -> None:
    """In the server's words."""
    assert_one_sentence(cli(("query", "SELEC 1", "--json"), there), 1)


def test_what_breaks_off_in_the_middle_is_one_sentence_and_leaves_no_file(
    there: dict[str, str], tmp_path: Path
) -> None:
    """The server says why behind the rows that it had written by then."""
    sql, file = "SELECT number, throwIf(number = 3000000) FROM numbers(10000000)", tmp_path / "rows.csv"

    done = cli(("query", sql, "--format", "csv", "--output", str(file)), there)

    assert_one_sentence(done, 1)
    assert "Code: 395" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_no_rows_are_clean_too(there: dict[str, str]) -> None:
    """An empty list for programs, a word on stderr for people."""
    as_json, as_table = (cli(("query", "SELECT 1 WHERE 0", *flags), there) for flags in (["--json"], []))

    assert json.loads(as_json.stdout) == []
    assert (as_table.returncode, as_table.stdout, as_table.stderr) == (0, "", "no rows\n")


async def send(bootstrap: str, topic: str, numbers: Sequence[int]) -> None:
    headers = [("schema", b"gpu.events/1"), ("content-type", NDJSON.encode())]
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in numbers:
            value = b'{"at_ms": %d, "host": "a"}\n{"at_ms": %d, "host": "b"}' % (number, number)
            await producer.send_and_wait(topic, value, partition=number % 2, headers=headers)
            await asyncio.sleep(0.002)  # append times in order


async def send_in_transactions(bootstrap: str, topic: str, count: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        for number in range(count):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"%d" % number, partition=0)


async def send_wide(bootstrap: str, topic: str, count: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for _ in range(count):
            await producer.send(topic, b"x" * 90, partition=0, headers=[("h", b"y" * 500)])


def test_tail_shows_the_newest_records_oldest_first(
    there: dict[str, str], kafka_bootstrap: str, topic_name: Callable[..., str]
) -> None:
    """`-n` counts records over all partitions, not events; JSON lines and nothing else."""
    topic = topic_name("events", partitions=2)
    asyncio.run(send(kafka_bootstrap, topic, range(9)))

    some, all_of_them = cli(("tail", topic, "-n", "3"), there), cli(("tail", topic, "-n", "100"), there)

    assert [json.loads(line)["at_ms"] for line in some.stdout.splitlines()] == [6, 6, 7, 7, 8, 8]
    assert len(all_of_them.stdout.splitlines()) == 18
    assert (some.returncode, some.stderr) == (0, "")


def test_tail_finds_the_newest_behind_holes(
    there: dict[str, str], kafka_bootstrap: str, topic_name: Callable[..., str]
) -> None:
    """Each transaction's marker takes an offset; the search goes further back until there are enough."""
    topic = topic_name("events", partitions=1)
    asyncio.run(send_in_transactions(kafka_bootstrap, topic, 30))

    done = cli(("tail", topic, "-n", "25"), there)

    assert [json.loads(line)["_begins"] for line in done.stdout.splitlines()] == [str(n) for n in range(5, 30)]


def test_a_wrong_topic_names_those_near_it(there: dict[str, str], topic_name: Callable[..., str]) -> None:
    """Exit code 2 and one sentence."""
    topic = topic_name("events", partitions=1)

    done = cli(("tail", topic + "z"), there)

    assert_one_sentence(done, 2)
    assert topic in "".join(done.stderr.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_following_ends_cleanly(
    number: signal.Signals, there: dict[str, str], kafka_bootstrap: str, topic_name: Callable[..., str]
) -> None:
    """What comes later is shown; Ctrl-C is no error."""
    topic = topic_name("events", partitions=1)
    asyncio.run(send(kafka_bootstrap, topic, [0]))
    command = [sys.executable, "-m", "fleetpulse", "tail", topic, "--follow"]
    with subprocess.Popen(
        command, env=environment(**there), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        first = [following.stdout.readline() for _ in range(2)]
        asyncio.run(send(kafka_bootstrap, topic, [2]))
        later = [following.stdout.readline() for _ in range(2)]
        following.send_signal(number)
        rest, said = following.stdout.read(), following.stderr.read()

    assert [json.loads(line)["at_ms"] for line in (*first, *later)] == [0, 0, 2, 2]
    assert (following.returncode, rest, said) == (0, "", "")


def test_a_reader_that_goes_away_ends_the_command_in_silence(
    there: dict[str, str], kafka_bootstrap: str, topic_name: Callable[..., str]
) -> None:
    """`fleetpulse tail TOPIC | head -1`."""
    topic = topic_name("events", partitions=1)
    asyncio.run(send_wide(kafka_bootstrap, topic, 400))
    command = f"{shlex.quote(sys.executable)} -m fleetpulse tail {topic} -n 400 | head -n 1"

    done = subprocess.run(
        ["sh", "-c", command], env=environment(**there), capture_output=True, text=True, timeout=240, check=False
    )

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
