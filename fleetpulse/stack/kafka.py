"""One Kafka broker and controller, or a few of them, sized for a laptop of two cores."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import socket
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runtime.local_stack import Ports, StackState, node_name

NAME = "kafka"
HEAP_MB = 512
COPIES_MAX = 3
"""Of an internal topic."""

SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    # Every internal topic has few partitions.
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "1",
    # Threads for two cores.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "2",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
    # Groups: jobs use sessions of 6 s; a member alone starts at once.
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.retention.minutes": str(7 * 24 * 60),
    # A transaction whose owner was killed holds up readers until it is ended: look every second.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # After kill -9 the controller waits for the old session to run out before it lets the broker in again. With 3 s one
    # that stood still for 2 s on a busy machine was taken for gone.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "6000",
    "log.segment.bytes": str(256 << 20),
    "log.retention.check.interval.ms": "60000",
    "socket.request.max.bytes": str(100 << 20),
}
FEATURES = Path(__file__).parent / "bootstrap.checkpoint"
"""The features of a new cluster, as the pinned Kafka's own ``kafka-storage format`` writes them (a test compares)."""
_ARCHIVES = f"{NAME}-classes-"
_LOGGED = (
    "defaultLogLevel=warn", "showDateTime=true", "dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS", "showThreadName=false",
)  # fmt: skip
_LOGGING = tuple(f"-Dorg.slf4j.simpleLogger.{setting}" for setting in _LOGGED)


def mark(data_dir: Path, number: int = 1) -> str:
    """The argument by which a broker of this folder is recognised."""
    return f"-Dfleetpulse.part={node_name(NAME, number)}:{data_dir}"


def settings(nodes: Sequence[Ports], log_dir: Path, number: int = 1) -> str:
    """The text of ``server.properties`` of a node, of all that have brokers."""
    ports, copies = nodes[number - 1], min(len(nodes), COPIES_MAX)
    voters = (f"{at}@127.0.0.1:{each.kafka_controller}" for at, each in enumerate(nodes, start=1))
    own = {
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{ports.kafka},CONTROLLER://127.0.0.1:{ports.kafka_controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports.kafka}",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": json.dumps(str(log_dir))[1:-1],  # Java's escapes are JSON's, and it takes the file for Latin-1
    }
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        own[f"{topic}.replication.factor"] = str(copies)
    for topic in ("transaction.state.log", "share.coordinator.state.topic"):
        own[f"{topic}.min.isr"] = str(max(copies - 1, 1))
    return "".join(f"{key}={value}\n" for key, value in (SETTINGS | own).items())


def prepare(state: StackState, number: int = 1) -> None:
    """Write the settings and, the first time, format the log folder; safe to repeat after a kill at any moment."""
    home = state.data_dir / node_name(NAME, number)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)  # the folder that it is in may be open to others
    (home / "tmp").mkdir(exist_ok=True)
    logs = home / "log"
    if not logs.exists():
        _format(state, logs, number)
    text = settings(state.nodes[: state.brokers], logs, number)
    (home / "server.properties").write_text(text, encoding="utf-8")


def _format(state: StackState, logs: Path, number: int) -> None:
    """What ``kafka-storage format`` writes, without two seconds of a JVM. The folder gets its name when it is whole."""
    for stale in logs.parent.glob("fresh.*"):  # of an `up` that was killed
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="fresh.", dir=logs.parent, ignore_cleanup_errors=True) as folder:
        fresh = Path(folder) / "log"
        fresh.mkdir()
        shutil.copy(FEATURES, fresh)
        own = {"version": "1", "node.id": str(number), "cluster.id": state.cluster_id, "directory.id": _new_id()}
        (fresh / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in own.items()))
        fresh.rename(logs)


def _new_id() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")


def class_archive(java: Path, jars: Sequence[Path], cache: Path) -> Path | None:
    """Where this Java keeps the broker's classes parsed and checked, which halves the CPU of a start and saves 40 MB
    of memory (JVM class data sharing; some 50 MB on disk). None where it has no archive of its own classes to add to.
    """
    home = java.resolve().parent.parent
    own = home / "lib" / "server" / "classes.jsa"
    if not own.is_file() or not jars:
        return None
    made_of = f"{home}\n{own.stat().st_mtime_ns}\n{_class_path(jars)}"
    return cache / f"{_ARCHIVES}{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"


def sharing(state: StackState, archive: Path | None, number: int = 1) -> list[str]:
    """The options by which a broker reads the archive, or the first one writes it when it ends; ``keep_archive`` then
    keeps it."""
    if archive is None or (number > 1 and not archive.is_file()):
        return ["-Xshare:auto"]
    written = state.data_dir / NAME / "tmp" / archive.name
    written.unlink(missing_ok=True)  # of a broker that was killed; half of it, perhaps
    option = f"SharedArchiveFile={archive}" if archive.is_file() else f"ArchiveClassesAtExit={written}"
    return ["-Xshare:auto", "-XX:+VerifySharedSpaces", f"-XX:{option}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def keep_archive(state: StackState, cache: Path) -> None:
    """Move what a broker wrote that has ended by itself to the cache, for every start from now on."""
    for written in (state.data_dir / NAME / "tmp").glob(f"{_ARCHIVES}*.jsa"):
        with contextlib.suppress(OSError):  # no room: the next start is as slow as this one was
            beside = cache / f"{written.name}.{secrets.token_hex(4)}"
            try:
                shutil.move(written, beside)
                with beside.open("rb") as whole:  # Java ends over half of one, as a power cut might leave
                    os.fsync(whole.fileno())
                beside.replace(cache / written.name)
            finally:
                beside.unlink(missing_ok=True)


def drop_archives(cache: Path) -> bool:
    """Remove what is kept, so that brokers start without; whether there was any."""
    kept = list(cache.glob(f"{_ARCHIVES}*.jsa"))
    for archive in kept:
        archive.unlink(missing_ok=True)
    return bool(kept)


def command(
    state: StackState, java: Path, jars: Sequence[Path], shared: Sequence[str] = (), number: int = 1
) -> list[str]:
    """A broker's command line; ``shared`` is of ``sharing``."""
    home, log = state.data_dir / node_name(NAME, number), state.data_dir / "log"
    return [
        str(java),
        mark(state.data_dir, number),
        f"-Xmx{HEAP_MB}m",
        f"-Xms{HEAP_MB // 2}m",
        # Without the optimising compiler: half the CPU to start, and half of it per record in the first minutes (0.16 s
        # for 4,000 records of 5 kB against 0.4 s), which is as long as a stack on two cores usually lives.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        *shared,
        f"-XX:ErrorFile={log}/kafka-crash-%p.log",
        f"-Djava.io.tmpdir={home / 'tmp'}",
        *_LOGGING,
        "-cp",
        _class_path(jars),
        "kafka.Kafka",
        str(home / "server.properties"),
    ]


def _class_path(jars: Sequence[Path]) -> str:
    return ":".join(map(str, jars))


# Metadata request: length, api key 3, version 5, correlation id, client id "up", no topics, no creation.
_ASK = struct.pack(">hhih2sib", 3, 5, 7, 2, b"up", 0, 0)


def is_ready(port: int, number: int = 1) -> bool:
    """Whether the broker answers and counts itself as one of the cluster (a fenced one does not)."""
    with contextlib.suppress(OSError, struct.error), socket.create_connection(("127.0.0.1", port), 1.0) as connection:
        connection.settimeout(2.0)
        connection.sendall(struct.pack(">i", len(_ASK)) + _ASK)
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        return number in _brokers(answer.read(length))
    return False


def _brokers(answer: bytes) -> set[int]:
    """Ids of the brokers that a metadata response (version 5) names: id, host, port, rack of each."""
    _correlation, _throttle_ms, count = struct.unpack_from(">iii", answer)
    found, position = set(), 12
    for _ in range(count):
        number, host = struct.unpack_from(">ih", answer, position)
        (rack,) = struct.unpack_from(">h", answer, position + 10 + host)
        found.add(number)
        position += 12 + host + max(rack, 0)
    return found
