"""TLS, logins and rights on real servers: the whole way through them, and what is said to who is turned away.

Covers fleetpulse.doctor.look_certificates, runtime.access_lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError
from pydantic import SecretStr

from fleetpulse.dashboard import console
from fleetpulse.dashboard.consumer_lag import LagOfGroups
from fleetpulse.dashboard.data import Data
from lab.simulator.service import TRACES
from producers.batch import Batch
from producers.publish.publisher import Publisher
from producers.spool.spool import Spool
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.counters import Counters
from runtime.kafka_clients import make_consumer, make_producer, started, why_rejected
from schemas.contract.headers import NDJSON
from schemas.contract.topics import BOOKS_TOPIC, SOURCE_TOPICS, TOPICS
from schemas.errors import UnavailableError
from stream_jobs.runner.watchdog import EXIT_FATAL
from tests.conftest import ROOT
from tests.integration import secured_rig as rig
from tests.integration.delivery_rig import Receiver
from tests.integration.forked import forked
from tests.integration.secured_rig import Authority, Right, Secured, secured

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

Environment = dict[str, str]
DEPLOYMENT = "local"
REFUSED_WITHIN_S = 120.0
KEY_PASSWORD = "key-Pa55-of-the-test"
SECRETS = (*rig.SECRETS, KEY_PASSWORD, "wrong-Pa55")
RIGHTS: list[Right] = [
    *((rig.TOPIC, topic.name, rig.LITERAL, right) for topic in TOPICS for right in (rig.READ, rig.WRITE)),
    *((rig.TOPIC, topic.name, rig.LITERAL, right) for topic in TOPICS for right in (rig.CREATE, rig.DESCRIBE_CONFIGS)),
    *((rig.TRANSACTIONAL_ID, f"{DEPLOYMENT}-", rig.PREFIXED, right) for right in (rig.WRITE, rig.DESCRIBE)),
    (rig.GROUP, f"{DEPLOYMENT}-", rig.PREFIXED, rig.READ),
]
"""What docs/how-to/operations.md asks for, and nothing more."""
EDGE_RIGHTS: list[Right] = [
    (rig.TOPIC, name, rig.LITERAL, rig.WRITE) for name in (*(topic.name for topic in SOURCE_TOPICS), BOOKS_TOPIC)
]


@dataclass(frozen=True, slots=True)
class World:
    """The servers, and the variables by which every command finds and enters them."""

    servers: Secured
    folder: Path
    good: Environment
    edge: Environment
    """For who comes with a certificate, and may only write what an edge writes."""
    other_authority: Path
    """An authority that has vouched for nobody here."""
    reachable: Path
    """A folder that everybody of this machine may enter; ``folder`` is our own."""

    def role(self, name: str) -> Environment:
        """For who comes with the login of a role."""
        return {**self.good, "FLEETPULSE_KAFKA__SASL_USERNAME": name}

    def administrator(self) -> Environment:
        """For who may do everything: the plain listener, which is above all rights."""
        plain = {
            "FLEETPULSE_KAFKA__BOOTSTRAP": f"127.0.0.1:{self.servers.plain_port}",
            "FLEETPULSE_KAFKA__SECURITY_PROTOCOL": "PLAINTEXT",
        }
        return {key: value for key, value in self.good.items() if "KAFKA" not in key} | plain

    def file(self, name: str, text: str) -> str:
        return str(secret(self.folder / name, text))


def secret(path: Path, text: str, mode: int = 0o600) -> Path:
    """A file with a secret, its owner's unless ``mode`` says otherwise."""
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secured")
    with tempfile.TemporaryDirectory() as reachable, secured(folder) as servers:
        Path(reachable).chmod(0o755)
        rig.grant(servers.plain_port, rig.USER, RIGHTS)
        rig.grant(servers.plain_port, "CN=edge", EDGE_RIGHTS)
        good = _variables(servers, folder)
        certificate = servers.authority.issue("edge", key_password=KEY_PASSWORD)
        secret(folder / "key-password", KEY_PASSWORD)
        edge = {
            "FLEETPULSE_KAFKA__BOOTSTRAP": f"{rig.HOST}:{servers.certificate_port}",
            "FLEETPULSE_KAFKA__SECURITY_PROTOCOL": "SSL",
            "FLEETPULSE_KAFKA__SSL_CAFILE": str(servers.authority.certificate),
            "FLEETPULSE_KAFKA__SSL_CERTFILE": str(certificate),
            "FLEETPULSE_KAFKA__SSL_KEY_PASSWORD_FILE": str(folder / "key-password"),
        }
        stranger = Authority(folder / "other")
        stranger.issue("stranger")
        servers.authority.issue("short", days=5)
        yield World(servers, folder, good, edge, stranger.certificate, Path(reachable))


def _variables(servers: Secured, folder: Path) -> Environment:
    """The example of docs/how-to/operations.md; passwords from files."""
    authority = str(servers.authority.certificate)
    variables = {
        "KAFKA__BOOTSTRAP": f"{rig.HOST}:{servers.login_port}",
        "KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA__SASL_USERNAME": rig.USER,
        "KAFKA__SASL_PASSWORD_FILE": str(folder / "kafka-password"),
        "KAFKA__SSL_CAFILE": authority,
    }
    secret(folder / "kafka-password", rig.PASSWORD)
    for section, user, password in (("", "fleetpulse", rig.WRITER), ("_READER", "reader", rig.READER)):
        path = secret(folder / f"{user}-password", password)
        variables |= {
            f"CLICKHOUSE{section}__URL": f"https://{rig.HOST}:{servers.https_port}",
            f"CLICKHOUSE{section}__USER": user,
            f"CLICKHOUSE{section}__PASSWORD_FILE": str(path),
            f"CLICKHOUSE{section}__CA_FILE": authority,
        }
    return {f"FLEETPULSE_{name}": value for name, value in variables.items()}


def _environment(variables: Mapping[str, str], data_dir: Path) -> Environment:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("FLEETPULSE_KAFKA", "SSL_"))}
    return {**given, "PYTHONPATH": str(ROOT), "COLUMNS": "300", **variables, "FLEETPULSE_DATA_DIR": str(data_dir)}


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command said, both streams together, and how it ended."""

    code: int
    said: str


def fleetpulse(variables: Mapping[str, str], folder: Path, *words: str) -> Ended:
    """Run a command in a folder of its own; no secret may be in what it says."""
    folder.mkdir(exist_ok=True)
    done = forked(words, _environment(variables, folder), folder, together=True)
    _demand_no_secrets(done.stdout)
    return Ended(done.returncode, done.stdout)


def fleetpulse_from_the_start(variables: Mapping[str, str], folder: Path, *words: str) -> Ended:
    """The same in an interpreter of its own."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "fleetpulse", *words],
        env=_environment(variables, folder),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=600,
        check=False,
    )
    _demand_no_secrets(done.stdout)
    return Ended(done.returncode, done.stdout)


def _demand_no_secrets(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == []


@contextlib.contextmanager
def service(variables: Mapping[str, str], folder: Path, *words: str) -> Iterator[Path]:
    """A service that runs meanwhile, then is asked to end and ends with 0; its log. After a fatal error, as a commit
    that a busy machine holds up for 20 s, it is started again, as its supervisor does."""
    log, ending = folder / f"{'-'.join(words)}.log", threading.Event()
    lives = [_started(variables, folder, log, words)]

    def tend() -> None:
        while not ending.wait(0.2):
            if lives[-1].poll() == EXIT_FATAL:
                lives.append(_started(variables, folder, log, words))

    tending = threading.Thread(target=tend)
    tending.start()
    try:
        yield log
        ending.set()
        tending.join()
        lives[-1].send_signal(signal.SIGTERM)
        assert lives[-1].wait(120) == 0, log.read_text()
    finally:
        ending.set()
        tending.join()
        lives[-1].kill()
        lives[-1].wait()
    _demand_no_secrets(log.read_text())


def _started(variables: Mapping[str, str], folder: Path, log: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "fleetpulse", *words],
            env=_environment(variables, folder / "data"),
            cwd=folder,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture(scope="module")
def migrated(world: World) -> World:
    """With topics and tables, by two runs: the second finds all as it must be."""
    first = fleetpulse_from_the_start(world.good, world.folder / "migrate", "migrate")
    again = fleetpulse(world.good, world.folder / "migrate", "migrate")

    assert first.code == 0, first.said
    assert (again.code, again.said.strip()) == (0, "topics and tables are up to date")
    return world


@pytest.fixture(scope="module")
def logins(migrated: World) -> World:
    """With a login for each role; a second run finds that none lacks anything."""
    given = [word for role in ("edge", "jobs", "sink", "people", "deliver") for word in ("--acls", f"{role}={role}")]
    first = fleetpulse(migrated.administrator(), migrated.folder / "logins", "migrate", *given)
    again = fleetpulse(migrated.administrator(), migrated.folder / "logins", "migrate", *given)

    assert first.code == 0, first.said
    assert "allow User:edge topic books, topic custom.metrics" in first.said
    assert (again.code, again.said.strip()) == (0, "topics and tables are up to date")
    return migrated


def test_the_whole_way_is_exact_behind_tls(logins: World, tmp_path: Path) -> None:
    """An edge by certificate and one by password; jobs in both shells, and the sink, each with a login of its own;
    reconcile finds nothing."""
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(_lines_of_a_trace(400)))
    jobs, people, data = logins.role("jobs"), logins.role("people"), tmp_path / "data"
    simulate = ("simulate", "--gpus", "8", "--seconds", "3")
    replay = ("replay", str(trace), "--format", "azure", "--speed", "max")

    with (
        service(jobs, tmp_path, "jobs", "windows", "--name", "worker-0"),
        service(jobs, tmp_path, "jobs", "finals", "--name", "worker-0", "--shell", "bare") as bare,
        service(jobs, tmp_path, "jobs", "costs", "--name", "worker-0") as costs,
        service(jobs, tmp_path, "jobs", "alerts", "--name", "worker-0") as alerts,
        service(logins.role("sink"), tmp_path, "sink"),
        ThreadPoolExecutor() as pool,
    ):
        edges = [
            pool.submit(fleetpulse, logins.edge, tmp_path / "edge", *simulate),
            pool.submit(fleetpulse, logins.role("edge"), tmp_path / "replay", *replay),
        ]
        sent = [edge.result() for edge in edges]
        books = fleetpulse(people, data, "reconcile", "--wait", "300")
        asked = "SELECT count() AS rows FROM llm_requests FINAL WHERE model = 'replayed'"
        rows = fleetpulse(people, data, "query", asked, "--json")

    assert [one.code for one in (*sent, books, rows)] == [0, 0, 0, 0], (*sent, books, rows)
    assert json.loads(rows.said)[0]["rows"] == 400
    assert ["partitions are live" in log.read_text() for log in (bare, costs, alerts)] == [True] * 3


async def test_an_edge_may_write_events_and_nothing_else(logins: World) -> None:
    """What a GPU node that was taken over gets at: not what jobs write, and nobody's events."""
    kafka = _kafka(logins.servers, sasl_username="edge")

    async with started(make_producer(kafka)) as producer:
        await producer.send_and_wait("gpu.samples", b"x")
        for topic in ("window.partials", "costs", "alerts", "alert.commands", "rejected", "contract"):
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait(topic, b"x")
    async with started(make_consumer(kafka)) as consumer:
        partition = TopicPartition("llm.requests", 0)
        consumer.assign([partition])
        with pytest.raises(TopicAuthorizationFailedError):
            await consumer.getone(partition)


def doctor_of(world: World, variables: Environment) -> list[dict[str, str]]:
    """What the doctor finds by a login."""
    findings: list[dict[str, str]] = json.loads(
        fleetpulse(variables, world.folder / "doctor", "doctor", "--json").said
    )["findings"]
    return findings


def test_the_doctor_names_a_login_that_edges_and_jobs_share(logins: World) -> None:
    """The one login of everything, and none of those that have a role."""
    found = [one for one in doctor_of(logins, logins.administrator()) if one["check"] == "kafka.logins"]
    assert [(one["subject"], one["state"]) for one in found] == [(f"User:{rig.USER}", "wrong")]


def test_no_login_of_a_role_makes_the_doctor_call_wrong_what_it_may_not_see(
    logins: World,
) -> None:
    """What the administrator finds wrong and no more; who sees topics and groups of everybody has none hidden."""

    def by_state_of(findings: list[dict[str, str]]) -> dict[str, set[str]]:
        by_state: dict[str, set[str]] = {}
        for one in findings:
            if not one["check"].startswith("join."):  # of the last minutes' events: another one a minute later
                by_state.setdefault(one["state"], set()).add(one["check"])
        return by_state

    whole = by_state_of(doctor_of(logins, logins.administrator()))
    roles = ("jobs", "sink", "deliver", "people")
    seen = {role: by_state_of(doctor_of(logins, logins.role(role))) for role in roles}

    assert set().union(*(by_state.get("wrong", set()) for by_state in seen.values())) <= whole["wrong"]
    hidden = {role: by_state.get("unknown", set()) - {"clock.kafka"} for role, by_state in seen.items()}
    assert hidden == {
        "jobs": {"topic.exists", "lag"},
        "sink": {"topic.exists", "lag", "kafka.transactions"},
        "deliver": {"topic.exists", "lag", "kafka.transactions"},
        "people": {"kafka.transactions"},
    }


def _lines_of_a_trace(requests: int) -> list[str]:
    path = ROOT / "lab" / "data" / "azure_llm_2023" / TRACES["conversation"]
    with path.open() as file:
        return [next(file) for _ in range(requests + 1)]


async def test_the_dashboard_asks_behind_tls(migrated: World) -> None:
    """Its pool of connections, the page of people's own SQL, and the lag of groups."""
    servers = migrated.servers
    url, ca_file = f"https://{rig.HOST}:{servers.https_port}", servers.authority.certificate
    login = ClickHouseConfig(url=url, user="reader", password=SecretStr(rig.READER), ca_file=ca_file)
    data = Data(login)

    try:
        pooled = await data.sql("SELECT 1 AS one", {}, {})
    finally:
        await data.close()
    own = await console.table(login, "SELECT 2 AS two", {})
    lags = await LagOfGroups(_kafka(servers)).ask()

    assert (pooled.rows, own.rows) == (((1,),), ((2,),))
    assert {lag.topic for lag in lags} >= {topic.name for topic in SOURCE_TOPICS}


def _kafka(servers: Secured, **other: Any) -> KafkaConfig:
    """How to enter by the login, or in another way."""
    usual = {
        "bootstrap": f"{rig.HOST}:{servers.login_port}",
        "security_protocol": "SASL_SSL",
        "sasl_username": rig.USER,
        "sasl_password": rig.PASSWORD,
        "ssl_cafile": servers.authority.certificate,
    }
    return KafkaConfig(**(usual | other))


# --- turned away


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command whose settings differ from the good ones, how it must end and what it must say."""

    words: str
    other: Callable[[World], Environment]
    code: int
    says: str


def _wrong_password(section: str, name: str = "PASSWORD_FILE") -> Callable[[World], Environment]:
    return lambda world: {f"FLEETPULSE_{section}__{name}": world.file("wrong", "wrong-Pa55")}


def _other_authority(key: str) -> Callable[[World], Environment]:
    return lambda world: {f"FLEETPULSE_{key}": str(world.other_authority)}


_KAFKA_PASSWORD = _wrong_password("KAFKA", "SASL_PASSWORD_FILE")
_KAFKA_LOGIN = r"kafka\.sasl_username = 'fleetpulse': must be a login that localhost:\d+ accepts, with its sasl_"
_READER_URL = "FLEETPULSE_CLICKHOUSE_READER__URL"
OF_THEIR_OWN = (
    *("migrate, a wrong password", "jobs in Faust", "jobs on the bare loop", "sink", "deliver", "simulate", "doctor"),
    "query, a wrong password",
)
"""One of each kind, in an interpreter of its own."""
REFUSALS = {
    "migrate, a wrong password": Refusal("migrate", _KAFKA_PASSWORD, 2, _KAFKA_LOGIN),
    "migrate, an unknown authority": Refusal(
        "migrate",
        _other_authority("KAFKA__SSL_CAFILE"),
        2,
        r"kafka\.ssl_cafile = '.*ca\.crt': must hold the authority behind the certificate of localhost:\d+",
    ),
    "migrate, another host name": Refusal(
        "migrate",
        lambda world: {"FLEETPULSE_KAFKA__BOOTSTRAP": f"127.0.0.1:{world.servers.login_port}"},
        2,
        r"kafka\.bootstrap = '127\.0\.0\.1:\d+': must be a name that the server's certificate holds",
    ),
    "migrate, without the rights": Refusal("migrate", lambda world: world.edge, 1, "the login needs DescribeConfigs"),
    "jobs in Faust": Refusal("jobs windows --name w", _KAFKA_PASSWORD, 2, _KAFKA_LOGIN),
    "jobs on the bare loop": Refusal("jobs finals --name w --shell bare", _KAFKA_PASSWORD, 2, _KAFKA_LOGIN),
    "sink": Refusal("sink", _KAFKA_PASSWORD, 2, _KAFKA_LOGIN),
    "deliver": Refusal(
        "deliver",
        lambda world: (
            _KAFKA_PASSWORD(world)
            | {
                "FLEETPULSE_DELIVERY__DEFAULT__KIND": "webhook",
                "FLEETPULSE_DELIVERY__DEFAULT__ENDPOINT_URL": "http://127.0.0.1:1/hook",
            }
        ),
        2,
        _KAFKA_LOGIN,
    ),
    "reconcile": Refusal("reconcile", _KAFKA_PASSWORD, 2, _KAFKA_LOGIN),
    "tail": Refusal("tail books", _KAFKA_PASSWORD, 2, _KAFKA_LOGIN),
    "simulate": Refusal("simulate --gpus 8 --seconds 1", _KAFKA_PASSWORD, 2, _KAFKA_LOGIN),
    "doctor": Refusal("doctor --within 5", _KAFKA_PASSWORD, 1, "FLEETPULSE_KAFKA__SASL_PASSWORD_FILE="),
    "doctor, a secret that others can read": Refusal(
        "doctor --within 60",
        lambda world: {
            "FLEETPULSE_KAFKA__SASL_PASSWORD_FILE": str(secret(world.reachable / "open-password", rig.PASSWORD, 0o644))
        },
        1,
        r"WRONG +secret\.file \S+open-password: holds passwords and others can read it\n +mend: chmod 600",
    ),
    "doctor, a certificate that ends soon": Refusal(
        "doctor --within 60",
        lambda world: {
            "FLEETPULSE_KAFKA__SSL_CERTFILE": str(world.servers.authority.certificate.with_name("short.pem"))
        },
        1,
        r"WRONG +certificate \S+short\.pem: ends in 5 days",
    ),
    "query, a wrong password": Refusal(
        "query 'SELECT 1'",
        _wrong_password("CLICKHOUSE_READER"),
        2,
        r"clickhouse\.user = 'reader': must be a login that https",
    ),
    "query, an unknown authority": Refusal(
        "query 'SELECT 1'",
        _other_authority("CLICKHOUSE_READER__CA_FILE"),
        2,
        r"clickhouse\.ca_file = '.*ca\.crt': must hold the authority behind the certificate of https",
    ),
    "query, another host name": Refusal(
        "query 'SELECT 1'",
        lambda world: {_READER_URL: f"https://127.0.0.1:{world.servers.https_port}"},
        2,
        r"clickhouse\.url = 'https://127\.0\.0\.1:\d+': must be a name that the server's certificate holds",
    ),
    "migrate, a wrong password of ClickHouse": Refusal(
        "migrate --dry-run", _wrong_password("CLICKHOUSE"), 2, r"clickhouse\.user = 'fleetpulse': must be a login"
    ),
    "sink, an unknown authority of ClickHouse": Refusal(
        "sink", _other_authority("CLICKHOUSE__CA_FILE"), 2, r"clickhouse\.ca_file = '.*': must hold the authority"
    ),
}


_GOOD = "doctor, nothing wrong"


@pytest.fixture(scope="module")
def ended(migrated: World) -> Iterator[dict[str, Future[Ended]]]:
    """All commands that are turned away, some at a time; and the doctor with good settings."""
    runs = {name: (one.other(migrated), shlex.split(one.words)) for name, one in REFUSALS.items()}
    runs[_GOOD] = ({}, ["doctor", "--within", "60"])  # a busy machine is nothing wrong
    with ThreadPoolExecutor(4) as pool:
        yield {
            name: pool.submit(
                fleetpulse_from_the_start if name in OF_THEIR_OWN else fleetpulse,
                migrated.good | other,
                migrated.folder / f"ended-{number}",
                *words,
            )
            for number, (name, (other, words)) in enumerate(runs.items())
        }


@pytest.mark.parametrize("name", REFUSALS)
def test_who_is_turned_away_is_told_what_to_change(ended: dict[str, Future[Ended]], name: str) -> None:
    """One sentence with the setting, the documented exit code, no secret and no traceback."""
    expected, found = REFUSALS[name], ended[name].result()

    assert found.code == expected.code, found.said
    assert re.search(expected.says, found.said), found.said
    assert "Traceback" not in found.said


def test_the_agent_goes_on_and_its_records_wait(migrated: World, tmp_path: Path) -> None:
    """However long it takes until it is turned away: it names the setting, and ends with 0 when it is told to."""
    refused = re.compile(f"Kafka rejected this client; records stay in the spool.*{_KAFKA_LOGIN}")
    variables = migrated.good | _KAFKA_PASSWORD(migrated) | {"FLEETPULSE_AGENT__DRAIN_MS": "200"}

    with service(variables, tmp_path, "agent") as log:
        until_s = time.monotonic() + REFUSED_WITHIN_S
        while not refused.search(log.read_text()):
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.1)

    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    ("other", "says"),
    [
        pytest.param({"sasl_username": "nobody"}, "kafka.sasl_username = 'nobody': must be a login", id="no such user"),
        pytest.param(
            {"sasl_mechanism": "PLAIN"}, "kafka.sasl_mechanism = 'PLAIN': must be one", id="no such mechanism"
        ),
        pytest.param(
            {"ssl_cafile": None}, 'kafka.ssl_cafile = "the system\'s authorities"', id="the system's authorities"
        ),
        pytest.param({"security_protocol": "PLAINTEXT"}, "'PLAINTEXT': must be that of localhost", id="no TLS"),
        pytest.param({"security_protocol": "SASL_PLAINTEXT"}, "speaks TLS alone", id="a login without TLS"),
    ],
)
async def test_the_broker_turns_away(migrated: World, other: dict[str, Any], says: str) -> None:
    """Every other way of coming by the wrong door is told by the setting too."""
    assert says in str(await why_rejected(_kafka(migrated.servers, **other)))


@pytest.mark.parametrize(
    ("certificate", "says"),
    [
        pytest.param(None, "kafka.ssl_certfile = None: must be a certificate that localhost", id="none"),
        pytest.param("stranger.pem", "stranger.pem': must be a certificate that localhost", id="of a stranger"),
    ],
)
async def test_the_broker_turns_away_a_certificate(migrated: World, certificate: str | None, says: str) -> None:
    """It wants one of its own authority."""
    folder = migrated.other_authority.parent
    by = {"bootstrap": f"{rig.HOST}:{migrated.servers.certificate_port}", "security_protocol": "SSL"}
    file = None if certificate is None else folder / certificate

    assert says in str(await why_rejected(_kafka(migrated.servers, **by, ssl_certfile=file)))


async def test_a_missing_right_holds_up_no_other_topic(migrated: World, tmp_path: Path) -> None:
    """What may be written is delivered; the rest is named, and arrives once the right is given."""
    servers = migrated.servers
    name, rejected, fine = "CN=narrow", SOURCE_TOPICS[0].name, SOURCE_TOPICS[1].name
    rig.grant(servers.plain_port, name, [(rig.TOPIC, each, rig.LITERAL, rig.WRITE) for each in (fine, BOOKS_TOPIC)])
    files = {"ssl_cafile": servers.authority.certificate, "ssl_certfile": servers.authority.issue("narrow")}
    kafka = KafkaConfig(bootstrap=f"{rig.HOST}:{servers.certificate_port}", security_protocol="SSL", **files)
    spool = Spool.open(tmp_path / "spool")

    async with Publisher(spool, kafka, host="h", counters=Counters()) as publisher:
        for topic in (rejected, fine) * 20:
            await publisher.put(topic, b"k", Batch(topic, f"{topic}/1", NDJSON, b"k", 1, b"{}"))
        await until(lambda: spool.unacknowledged_records == 20 and spool.low == (1, 40))
        why = publisher.undeliverable.why
        rig.grant(servers.plain_port, name, [(rig.TOPIC, rejected, rig.LITERAL, rig.WRITE)])
        assert await publisher.flush(60)
        await until(lambda: publisher.undeliverable.why is None)

    assert why is not None
    assert rejected in why
    assert "TopicAuthorizationFailedError" in why


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_certificate_that_has_run_out_is_waited_for(migrated: World) -> None:
    """The server's affair: services try again, and the sentence says what is to be renewed."""
    authority = migrated.servers.authority
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(authority.issue("old", host=rig.HOST, days=-1))
    receiver = Receiver(tls=server)

    async with receiver.standing():
        found = await why_rejected(_kafka(migrated.servers, bootstrap=f"{rig.HOST}:{receiver.port}"))

    assert isinstance(found, UnavailableError)
    assert f"{rig.HOST}:{receiver.port} shows a certificate out of its time" in str(found)


async def test_alerts_are_delivered_over_https(migrated: World, tmp_path: Path) -> None:
    """To targets whose authority ``ca_file`` names; without it the check fails and says why."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(migrated.servers.server)
    receiver = Receiver(tls=server)

    async with receiver.standing():
        targets = [
            {"name": "pager", "kind": "alertmanager", "ca_file": str(migrated.servers.authority.certificate)},
            {"name": "hook", "kind": "webhook", "ca_file": str(migrated.servers.authority.certificate)},
            {"name": "blind", "kind": "webhook"},
        ]
        url = {"endpoint_url": f"https://{rig.HOST}:{receiver.port}", "bearer_token": "wrong-Pa55"}
        variables = migrated.good | {"FLEETPULSE_DELIVERY__TARGETS": json.dumps([url | one for one in targets])}
        words = ("deliver", "--check", "--json", "--target")
        known = await asyncio.to_thread(fleetpulse, variables, tmp_path / "known", *words, "pager", "--target", "hook")
        blind = await asyncio.to_thread(fleetpulse, variables, tmp_path / "blind", *words, "blind")

    assert (known.code, [row["status"] for row in json.loads(known.said)]) == (0, [200] * 4), known.said
    assert {request.headers["authorization"] for request in receiver.requests} == {"Bearer wrong-Pa55"}
    assert blind.code == 1
    assert "certificate verify failed" in blind.said


def test_a_good_set_up_satisfies_the_doctor(ended: dict[str, Future[Ended]]) -> None:
    """The rights that the documentation lists are enough for all it looks at. What it finds is the trace that was
    replayed into this deployment, whose requests name no engine, while they are of the last minutes; and no GPU, while
    those of the simulation are. The jobs have ended, so their groups have no members."""
    found = ended[_GOOD].result()

    wrong = re.findall(r"^WRONG +(\S+)", found.said, re.MULTILINE)
    assert {*wrong} - {"process"} in ({"join.engine", "join.gpus"}, {"join.engine"}, set()), found.said
    assert f" {len(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong" in found.said
    assert found.code == (1 if wrong else 0)
