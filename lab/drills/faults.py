"""The drills: what is broken, what the product has to call it, and which lines of the runbook mend it."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from fleetpulse import stack
from fleetpulse.services.jobs_and_sink import EXAMPLE_PRICES, JOBS
from fleetpulse.stack.kafka import is_ready as answers
from lab.bench.stand import free_port, is_ready, metric
from lab.chaos.clock_shim import SteppedClock
from lab.chaos.disk_shim import compile_library
from lab.drills.broken_parts import break_parts, take_out
from lab.drills.certificates import HOST, Authority, TlsRelay
from lab.drills.full_disks import fills, has_room
from lab.drills.stand import PRODUCER, READY_WITHIN_S, SINK, Stand, metrics
from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_admin, make_producer, started
from runtime.local_stack import StackState, read_state
from runtime.runbook import Cause
from schemas.contract.headers import NDJSON
from schemas.contract.topics import WINDOW_FINALS
from schemas.limits import MINUTE_MS

OPEN_S, ALERT_WITHIN_S, BILLED_WITHIN_S = 90, 300.0, 120.0
GONE_S = 100.0
"""A process that is gone is notified of after a minute."""
ROWS = 500
TENANTS_S = 30.0
_NO_PERMISSION = r"""
#include <stdlib.h>
#include <unistd.h>
/* Nobody is let in, until there is a file: then there is no driver. */
static int answer(void) { const char *file = getenv("DRIVER_UNLOADED"); return file && !access(file, F_OK) ? 9 : 4; }
int nvmlInitWithFlags(unsigned flags) { return answer(); }
int nvmlInit_v2(void) { return answer(); }
"""
LOOKS_EVERY_MS = 5_000
BEHIND, AWAY = frozenset({Cause.LAG}), frozenset({Cause.LAG, Cause.PROCESS})
"""Consequences where a reader cannot do its work, or ends, or is started again."""
_JOBS = frozenset(f"jobs-{job}" for job in JOBS)
"""A job ends where Kafka is unavailable for too long while it runs, or an answer to a commit never comes."""
_PRICES = EXAMPLE_PRICES.read_text().partition("list_prices:")[0]


@dataclass(frozen=True, slots=True)
class Drill:
    """One fault. ``signs``: by channel the cause that it has to name; others are silent. ``paste``: of the section of
    the cause, the lines that hold one of these; None: all. ``outage_s``: how long the fault lasts at least."""

    name: str
    cause: Cause | None
    """None: it is no fault, and nobody may name one."""
    begin: Callable[[Stand], None]
    signs: Mapping[str, Cause]
    paste: Sequence[str] | None = None
    typed: Callable[[Stand], str] = field(default=lambda _stand: "")
    by_hand: Callable[[Stand], None] = lambda _stand: None
    """What is corrected before the last line, where the advice is to edit a file."""
    outage_s: float = 60.0
    of: str = ""
    """What a sign has to name beside the cause, where something else may have the same."""
    leaves: Cause | None = None
    """What it may leave behind, as its section says: where that is shown, its section is followed, too."""
    consequences: frozenset[Cause] = frozenset()
    """Other causes that are true as well while it lasts."""
    fails: Sequence[str] = ()
    """Pasted lines that hold one of these may fail here: no test machine has what they need."""
    ends: frozenset[str] = frozenset()
    """Services that end by it, or at each start, as they are meant to; all others have to go on. What the drill itself
    kills or stops is none of them."""
    disk: str | None = None
    """The folder of the stand that gets a small disk of its own, before it comes up."""


def _password_changes(stand: Stand) -> None:
    """The sink reads its password from a file, in which another stands at its next start."""
    file = stand.folder / "password"
    file.touch(mode=0o600)
    file.write_text("not this one\n")
    _sink_of(stand, _state(stand).clickhouse_url, PASSWORD_FILE=str(file))


def _certificate_ends(stand: Stand) -> None:
    """TLS is put before ClickHouse; its certificate has ended a day ago."""
    authority = Authority(stand.folder / "authority")
    state, port = _state(stand), free_port()
    ended = authority.issue("ended", host=HOST, days=-1)
    stand.relay = stand.running.enter_context(TlsRelay(ended, port, state.ports.clickhouse_http))
    authority.issue("renewed", host=HOST)
    trusted = {"PASSWORD": state.writer_password, "CA_FILE": str(authority.certificate)}
    _sink_of(stand, f"https://{HOST}:{port}", **trusted)


def _certificate_is_renewed(stand: Stand) -> None:
    assert stand.relay is not None
    stand.relay.show(stand.folder / "authority" / "renewed.pem")


def _sink_of(stand: Stand, url: str, **differing: str) -> None:
    """The sink is started again with a configuration of ClickHouse of its own."""
    login = {"URL": url, "USER": "fleetpulse", "DATABASE": "fleetpulse", **differing}
    _started_with(SINK, **{f"CLICKHOUSE__{key}": value for key, value in login.items()})(stand)


def _state(stand: Stand) -> StackState:
    state = read_state(stand.folder)
    assert state is not None
    return state


def _started_with(name: str, **environment: str) -> Callable[[Stand], None]:
    """A service that is started again with these variables."""

    def begin(stand: Stand) -> None:
        stand.gone(name)
        stand.environment |= {f"FLEETPULSE_{key}": value for key, value in environment.items()}
        stand.start(name)

    return begin


def _rules_change(stand: Stand) -> None:
    """The alert job is started again with a file of rules that has a typo."""
    file = stand.folder / "my-rules.yaml"
    file.write_text("include: defaults\nrules:\n  - name: gpu_hot\n    severty: critical\n")
    _started_with("jobs-alerts", RULES=str(file))(stand)


def _rules_are_right(stand: Stand) -> None:
    """The typo is corrected; what is pasted starts the job, which nobody else does then."""
    stand.gone("jobs-alerts")
    file = stand.folder / "my-rules.yaml"
    file.write_text(file.read_text().replace("severty", "severity"))


def _prices_change(stand: Stand) -> None:
    """The cost job is started again with a price file that does not know the fleet's GPUs. Nothing lacks a price before
    the job reads on and a minute that is over is billed."""
    file, job = stand.folder / "my-prices.yaml", "jobs-costs"
    file.write_text(_PRICES.replace("gpu: H100", "gpu: V100"))
    _started_with(job, PRICES=str(file))(stand)
    stand.until(lambda: is_ready(stand.ports[job]), READY_WITHIN_S, f"{job} is ready")
    ready_s = time.monotonic()
    stand.until(lambda: metric(metrics(stand.ports[job]), "cost_bills") > 0, BILLED_WITHIN_S, "a minute is billed")
    stand.struck_s = max(ready_s, time.monotonic() - SystemClock().now_ms() % MINUTE_MS / 1_000)


def _prices_are_right(stand: Stand) -> None:
    """The price is added and the job ended, as the page says; what is pasted starts it."""
    (stand.folder / "my-prices.yaml").write_text(_PRICES)
    stand.gone("jobs-costs")


def _webhook_fails(stand: Stand) -> None:
    """The receiver of alerts refuses the next, which is there at once: an agent beside the fleet has lost a GPU. Those
    of the fleet join alerts that are open, and nobody is notified of them again."""
    stand.struck_s, stand.webhook_status = None, 500
    _gpu_is(stand, "gpu_lost", "critical")
    stand.until(lambda: stand.struck_s is not None, ALERT_WITHIN_S, "an alert is refused")


def _webhook_is_well(stand: Stand) -> None:
    stand.webhook_status = 204
    _gpu_is(stand, "gpu_found", "info")


def _gpu_is(stand: Stand, kind: str, severity: str) -> None:
    """An agent beside the fleet reports this of its GPU."""
    event = {"kind": kind, "severity": severity, "gpu_uuid": "GPU-beside", "host": "beside", "origin": "simulated"}
    asyncio.run(_publish(stand.config.kafka, "gpu.events", [[event]]))


def _sent(records: int) -> Callable[[Stand], None]:
    """A foreign client writes records that no decoder reads."""

    async def send(kafka: KafkaConfig) -> None:
        async with started(make_producer(kafka)) as producer:
            for number in range(records):
                await producer.send("llm.requests", b"{not ours %d" % number)
            await producer.flush()

    return lambda stand: asyncio.run(send(stand.config.kafka))


def _tenants(count: int) -> Callable[[Stand], None]:
    """A foreign client names another tenant in every request. It is one host: all come to one partition, over
    ``TENANTS_S``, so that names alone are too many and not requests."""
    request = {"host": "foreign", "model": "m", "status": "ok", "origin": "simulated"}

    def batches() -> Iterator[list[dict[str, str]]]:
        for first in range(0, count, ROWS):
            yield [request | {"tenant": f"t-{n}", "request_id": f"r-{n}"} for n in range(first, first + ROWS)]

    pause_s = TENANTS_S * ROWS / count
    return lambda stand: asyncio.run(_publish(stand.config.kafka, "llm.requests", batches(), pause_s))


async def _publish(
    kafka: KafkaConfig, topic: str, batches: Iterable[list[dict[str, str]]], pause_s: float = 0.0
) -> None:
    """Events of now, a record for each batch and a pause behind it, from somebody who keeps no books."""
    headers = [("schema", f"{topic}/1".encode()), ("content-type", NDJSON.encode())]
    async with started(make_producer(kafka)) as producer:
        for batch in batches:
            at = {"at_ms": SystemClock().now_ms()}
            value = b"\n".join(orjson.dumps(event | at) for event in batch)
            await producer.send(topic, value, partition=0, headers=headers)
            await asyncio.sleep(pause_s)
        await producer.flush()


def _transaction_left_open(topic: str) -> Callable[[Stand], None]:
    """Somebody's transaction on a topic is not ended until its time is over: the fleet is one host, whose partition
    lags."""

    async def leave(kafka: KafkaConfig) -> None:
        limit = {"transactional_id": "drill", "transaction_timeout_ms": OPEN_S * 1_000}
        async with started(make_producer(kafka, **limit)) as producer:
            await producer.begin_transaction()
            for partition in await producer.partitions_for(topic):
                await producer.send_and_wait(topic, b"never committed", partition=partition)

    return lambda stand: asyncio.run(leave(stand.config.kafka))


def _clock_is_off(ms: int) -> Callable[[Stand], None]:
    """The fleet is simulated on a host whose clock is so far ahead; whoever looks there has the same clock."""

    def begin(stand: Stand) -> None:
        stand.shim = SteppedClock(stand.folder)
        stand.shim.set(str(ms))
        stand.environment |= stand.shim.environment
        stand.gone(PRODUCER)
        stand.start(PRODUCER)

    return begin


def _clock_is_right(stand: Stand) -> None:
    """The simulator waits until its next step has come by this clock: it is started again."""
    assert stand.shim is not None
    stand.shim.set("none")
    stand.gone(PRODUCER)
    stand.start(PRODUCER)


def _kafka_is_slow(stand: Stand) -> None:
    """The broker stands still for 1.9 of 2 s, so that commits take 2 to 4 s, until what slows it is taken away. Where
    processors are short it runs until it has answered: one that answers nothing is dead, which is another drill."""
    stand.kafka_is_quick.clear()
    state = read_state(stand.folder)
    assert state is not None

    def slow() -> None:
        while not stand.kafka_is_quick.is_set():
            stack.signal_part(stand.folder, stack.KAFKA, signal.SIGSTOP)
            time.sleep(1.9)
            stack.signal_part(stand.folder, stack.KAFKA, signal.SIGCONT)
            least = time.monotonic() + 0.1
            answers(state.ports.kafka)
            time.sleep(max(least - time.monotonic(), 0.0))

    threading.Thread(target=slow, name="slow-kafka", daemon=True).start()


def _gpus_are_refused(stand: Stand) -> None:
    """An agent starts beside a driver that lets it in nowhere; it looks again sooner than by default."""
    folder = stand.folder / "driver"
    folder.mkdir()
    compile_library(_NO_PERMISSION, folder, "driver").rename(folder / "libnvidia-ml.so.1")
    stand.environment |= {
        "LD_LIBRARY_PATH": str(folder),
        "DRIVER_UNLOADED": str(folder / "unloaded"),
        "FLEETPULSE_AGENT__PROBE_PERIOD_MS": str(LOOKS_EVERY_MS),
        "FLEETPULSE_AGENT__RECEIVER__SOCKET": str(stand.folder / "agent.sock"),
    }
    stand.start_beside("agent", "agent", "--spool", str(stand.folder / "agent-spool"))


def _driver_is_unloaded(stand: Stand) -> None:
    (stand.folder / "driver" / "unloaded").touch()


def _topic_deleted(name: str) -> Callable[[Stand], None]:
    async def delete(kafka: KafkaConfig) -> None:
        async with started(make_admin(kafka)) as admin:
            await admin.delete_topics([name])

    return lambda stand: asyncio.run(delete(stand.config.kafka))


def _password(stand: Stand) -> str:
    return f"{_state(stand).writer_password}\n"


def _signs(cause: Cause, *channels: str, **others: Cause) -> dict[str, Cause]:
    return dict.fromkeys(channels, cause) | others


def _clock_drill(way: str, ms: int) -> Drill:
    name, signs = f"clock 10 minutes {way}", _signs(Cause.CLOCK, "log", "alert", "doctor", "page")
    return Drill(name, Cause.CLOCK, _clock_is_off(ms), signs, by_hand=_clock_is_right, fails=("timedatectl",))


# fmt: off
DRILLS = (
    # Two that one alert shows stand apart: it has to be over before the second begins.
    Drill("windows job gone", Cause.PROCESS, lambda stand: stand.gone("jobs-windows"),
          _signs(Cause.PROCESS, "alert", "doctor", "page"), paste=("jobs windows",), outage_s=GONE_S,
          consequences=BEHIND),
    Drill("sink gone", Cause.PROCESS, lambda stand: stand.gone(SINK), _signs(Cause.PROCESS, "alert", "doctor", "page"),
          paste=("sink",), outage_s=180.0, consequences=BEHIND),
    Drill(
        "wrong database password",
        Cause.CLICKHOUSE_LOGIN,
        _password_changes,
        # The process ends at once: who scrapes it sees no more than that, and its section leads to this one.
        _signs(Cause.CLICKHOUSE_LOGIN, "log", "doctor", alert=Cause.PROCESS, page=Cause.PROCESS),
        typed=_password, outage_s=GONE_S, consequences=BEHIND, ends=frozenset({SINK}),
    ),
    Drill("expired certificate", Cause.CERTIFICATE, _certificate_ends,
          _signs(Cause.CERTIFICATE, "log", "readyz", "alert", "doctor"), by_hand=_certificate_is_renewed,
          consequences=AWAY),
    Drill("Kafka killed", Cause.KAFKA, lambda stand: stand.kill(stack.KAFKA),
          _signs(Cause.KAFKA, "log", "readyz", "alert", "doctor", "page"), outage_s=120.0, consequences=AWAY,
          ends=_JOBS),
    Drill("poison record", Cause.REJECTED, _sent(1), _signs(Cause.REJECTED, "log", "alert", "doctor", "page")),
    Drill("ClickHouse killed", Cause.CLICKHOUSE, lambda stand: stand.kill(stack.CLICKHOUSE),
          _signs(Cause.CLICKHOUSE, "log", "readyz", "alert", "doctor", "page"), outage_s=120.0, consequences=BEHIND),
    Drill("typo in a rule file", Cause.SETTING, _rules_change,
          _signs(Cause.SETTING, "log", "doctor", alert=Cause.PROCESS, page=Cause.PROCESS),
          paste=("rules check", "jobs alerts"), by_hand=_rules_are_right, outage_s=GONE_S, consequences=BEHIND,
          ends=frozenset({"jobs-alerts"})),
    _clock_drill("ahead", 600_000),
    Drill("job with another deployment name", Cause.DEPLOYMENT, _started_with("jobs-windows", KAFKA__DEPLOYMENT="blue"),
          _signs(Cause.DEPLOYMENT, "log", "doctor", alert=Cause.PROCESS, page=Cause.PROCESS),
          by_hand=lambda stand: stand.environment.clear(), outage_s=GONE_S, consequences=BEHIND,
          ends=frozenset({"jobs-windows"})),
    Drill("price missing for a GPU type", Cause.PRICE, _prices_change,
          _signs(Cause.PRICE, "log", "alert", "doctor", "page"), by_hand=_prices_are_right, consequences=AWAY),
    Drill("webhook that returns 500", Cause.DELIVERY, _webhook_fails,
          _signs(Cause.DELIVERY, "log", "readyz", "alert", "doctor", "page"), paste=("deliver --check",),
          by_hand=_webhook_is_well, outage_s=300.0),
    Drill("malformed records of a foreign client", Cause.REJECTED, _sent(10_000),
          _signs(Cause.REJECTED, "log", "alert", "doctor", "page")),
    Drill("200,000 tenants", Cause.SERIES, _tenants(200_000), _signs(Cause.SERIES, "log", "alert", "doctor", "page")),
    Drill("topic deleted", Cause.TOPIC, _topic_deleted(WINDOW_FINALS),
          _signs(Cause.TOPIC, "log", "doctor", "page", alert=Cause.PROCESS), outage_s=GONE_S, consequences=BEHIND,
          ends=frozenset({"jobs-finals", "jobs-alerts"})),
    Drill("two sinks with rollups", None, lambda stand: stand.start_beside("sink-1", "sink"), {}, outage_s=90.0),
    Drill("lagging partition", Cause.LAG, _transaction_left_open("llm.requests"),
          _signs(Cause.LAG, "alert", "doctor", "page"), paste=("jobs windows",), of="llm.requests"),
    _clock_drill("behind", -600_000),
    Drill("damaged parts", Cause.PART, break_parts,
          _signs(Cause.PART, "log", "readyz", "alert", "doctor", "page"), paste=("fleetpulse doctor",),
          by_hand=take_out),
    Drill("agent that may not read its GPU", Cause.GPU, _gpus_are_refused, _signs(Cause.GPU, "log", "alert"),
          by_hand=_driver_is_unloaded),
    Drill("slow broker", Cause.SLOW, _kafka_is_slow, _signs(Cause.SLOW, "log", "readyz", "alert"),
          by_hand=lambda stand: stand.kafka_is_quick.set(), consequences=BEHIND),
    *(
        Drill(
            f"disk full under {what}",
            cause,
            fills(folder),
            _signs(cause, "log", "readyz", "alert", *others),
            by_hand=has_room(folder),
            leaves=leaves, consequences=AWAY | {Cause.DISK},
            disk=folder, ends=ends,
        )
        for what, folder, cause, leaves, others, ends in (
            ("ClickHouse", "clickhouse", Cause.DISK, Cause.PART, ("doctor",), frozenset[str]()),
            ("Kafka", "kafka", Cause.KAFKA, None, ("doctor", "page"), _JOBS),
            ("a spool", "spool", Cause.SPOOL, None, (), frozenset[str]()),
        )
    ),
)
# fmt: on
