import stat
import struct
from pathlib import Path

from fleetpulse.stack import kafka
from runtime.local_stack import Ports, StackState

PORTS = Ports(21_001, 21_002, 21_003, 21_004)


def parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_broker_listens_on_loopback_alone() -> None:
    """Every address it listens on or advertises is 127.0.0.1."""
    settings = parsed(kafka.settings([PORTS], Path("/data/log")))

    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:21001,CONTROLLER://127.0.0.1:21002"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:21001"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:21002"


def test_a_folder_of_any_name_is_what_java_reads() -> None:
    """Java takes the file for Latin-1 and a backslash for the begin of an escape."""
    text = kafka.settings([PORTS], Path("/daten/größe \U0001f600/a\\b"))

    assert text.isascii()
    assert parsed(text)["log.dirs"] == r"/daten/gr\u00f6\u00dfe \ud83d\ude00/a\\b"


def test_topics_are_never_made_by_accident() -> None:
    """A misspelt topic is an error, not a new topic."""
    assert parsed(kafka.settings([PORTS], Path("/d")))["auto.create.topics.enable"] == "false"


def test_jobs_with_sessions_of_six_seconds_are_let_in() -> None:
    """The broker's least session is below what the jobs use."""
    assert int(parsed(kafka.settings([PORTS], Path("/d")))["group.min.session.timeout.ms"]) <= 6_000


def test_a_folder_with_a_space_stays_one_argument(tmp_path: Path) -> None:
    """Nothing on the command line goes through a shell."""
    state = StackState(tmp_path / "a b", "c", PORTS, "w", "r")

    command = kafka.command(state, Path("/opt/my java/bin/java"), [Path("/x y/a.jar"), Path("/x y/b.jar")])

    assert command[0] == "/opt/my java/bin/java"
    assert command[1] == kafka.mark(tmp_path / "a b")
    assert command[-3:] == ["/x y/a.jar:/x y/b.jar", "kafka.Kafka", str(tmp_path / "a b/kafka/server.properties")]


def test_the_heap_is_bounded() -> None:
    """512 MB, as a laptop can spare."""
    assert "-Xmx512m" in kafka.command(StackState(Path("/d"), "c", PORTS, "w", "r"), Path("/j"), [])


def test_secrets_are_not_on_the_command_line() -> None:
    """Every user of the machine can read command lines."""
    state = StackState(Path("/d"), "c", PORTS, "writer-secret", "reader-secret")

    assert "secret" not in " ".join(kafka.command(state, Path("/j"), []))


def test_nobody_else_looks_into_its_folder(tmp_path: Path) -> None:
    """Though that which it is in was there before, open to all: records of everybody are in it."""
    tmp_path.chmod(0o755)
    kafka.prepare(StackState(tmp_path, "c", PORTS, "w", "r"))

    assert stat.S_IMODE((tmp_path / "kafka").stat().st_mode) == 0o700


def java_of(home: Path, *, archive: bool) -> Path:
    """A Java installation, with or without an archive of its own classes."""
    (home / "bin").mkdir(parents=True)
    (home / "lib" / "server").mkdir(parents=True)
    (home / "bin" / "java").touch()
    if archive:
        (home / "lib" / "server" / "classes.jsa").touch()
    return home / "bin" / "java"


def test_classes_are_kept_per_java_and_jars_where_java_can(tmp_path: Path) -> None:
    """An archive holds for one Java and one class path; a Java without an archive of its own classes makes none."""
    jars = [tmp_path / "kafka.jar"]
    one, two = (java_of(tmp_path / name, archive=True) for name in ("one", "two"))

    found = [kafka.class_archive(java, used, tmp_path) for java, used in ((one, jars), (two, jars), (one, jars * 2))]

    assert len({*found, kafka.class_archive(one, jars, tmp_path)} - {None}) == 3
    assert kafka.class_archive(java_of(tmp_path / "bare", archive=False), jars, tmp_path) is None


def test_the_first_broker_writes_the_archive_and_the_next_ones_read_it(tmp_path: Path) -> None:
    """What a broker that was killed has left is not taken for whole."""
    state, cache = StackState(tmp_path / "data", "c", PORTS, "w", "r"), tmp_path / "cache"
    cache.mkdir()
    archive = cache / "kafka-classes-0a.jsa"
    written = tmp_path / "data" / "kafka" / "tmp" / archive.name
    written.parent.mkdir(parents=True)
    written.write_bytes(b"half")

    first = kafka.sharing(state, archive)
    killed = written.exists()
    written.write_bytes(b"whole")
    kafka.keep_archive(state, cache)

    assert (f"-XX:ArchiveClassesAtExit={written}" in first, killed, written.exists()) == (True, False, False)
    assert [(path.name, path.read_bytes()) for path in cache.iterdir()] == [(archive.name, b"whole")]
    assert f"-XX:SharedArchiveFile={archive}" in kafka.sharing(state, archive)
    assert kafka.sharing(state, None) == ["-Xshare:auto"]


def test_an_archive_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    """The stack is down all the same."""
    state = StackState(tmp_path, "c", PORTS, "w", "r")
    written = tmp_path / "kafka" / "tmp" / "kafka-classes-0a.jsa"
    written.parent.mkdir(parents=True)
    written.write_bytes(b"whole")

    kafka.keep_archive(state, tmp_path / "nowhere")

    assert written.exists()


def test_several_brokers_are_one_cluster_with_copies_of_everything() -> None:
    """Each is a voter of its own; internal topics outlive one of three."""
    nodes = [PORTS, Ports(22_001, 22_002, 22_003, 22_004), Ports(23_001, 23_002, 23_003, 23_004)]
    settings = parsed(kafka.settings(nodes, Path("/data/log"), 2))
    alone = parsed(kafka.settings([PORTS], Path("/data/log")))

    assert settings["node.id"] == "2"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:22001"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:21002,2@127.0.0.1:22002,3@127.0.0.1:23002"
    copies = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    assert [settings[name] for name in copies] == ["3", "3"]
    assert settings["transaction.state.log.min.isr"] == "2"
    assert [alone[name] for name in copies] == ["1", "1"]


def test_a_broker_is_ready_when_it_counts_itself() -> None:
    """Of a metadata response: one with a rack among them."""
    body = struct.pack(">iii", 7, 0, 2)
    body += struct.pack(">ih9sih2s", 1, 9, b"127.0.0.1", 9092, 2, b"r1")
    body += struct.pack(">ih9sih", 3, 9, b"127.0.0.1", 9093, -1)

    assert kafka._brokers(body + b"cluster and topics") == {1, 3}
