"""The edge's processes: configuration and a spool in, events out, until the time is up or SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any

import uvloop

from producers.publish.publisher import Publisher, PublisherSettings
from producers.publish.states import States
from producers.publish.supervised import SupervisedPublisher
from producers.spool.identity import sync_folder
from producers.spool.spool import Spool, SpoolLimits
from runtime import logs
from runtime.clock import SystemClock
from runtime.config import Config, load
from runtime.counters import COUNTERS
from runtime.edge_config import AgentConfig
from runtime.health import HealthServer
from runtime.process import on_stop_signal, run_to_the_end, settle
from runtime.proxy_config import ProxyConfig
from runtime.tracing import Tracer, tracing

if TYPE_CHECKING:
    from producers.agent.choice import Finding
    from producers.agent.host_claim import HostClaim
    from producers.agent.runner import Report
    from producers.agent.supervisor import Supervisor

_log = logging.getLogger(__name__)

DRAIN_S = 15.0
SETTLED_AFTER_S = 5.0
SECRET_BYTES = 32
SECRET_BYTES_MIN = 16
QUIET = PublisherSettings(linger_ms=100, save_every_s=5.0, books_every_s=5.0)
"""For a process that hardly sends: rows of one tick travel together, and the disk is left alone in between. After a
kill the acknowledged records of five seconds (of one soon after a start) are sent again, and recognised."""


@asynccontextmanager
async def publishing(
    config: Config, spool: Path | None, name: str, drain_s: float = DRAIN_S, settings: PublisherSettings | None = None
) -> AsyncIterator[Publisher]:
    """A publisher on a spool of its own; at the end what is spooled is sent, for a bounded time."""
    folder = spool or config.data_dir / "spool" / name
    with tracing(config.tracing, name) as tracer:
        publisher = await open_publisher(config, folder, settings, tracer)
        try:
            yield publisher
        finally:
            if not await publisher.close(drain_s):
                _log.warning("stopped with unsent records; they stay in the spool", extra={"spool": str(folder)})


async def open_publisher(
    config: Config,
    folder: Path,
    settings: PublisherSettings | None = None,
    tracer: Tracer | None = None,
    states: States | None = None,
) -> Publisher:
    """A started publisher on the spool in this folder; whatever is read there holds up no loop.

    Raises OSError where the disk does not take the spool; ConfigError for one that another process holds and for files
    of Kafka's settings that cannot be read; ContractError for a damaged one.
    """
    if config.kafka.unset is None:
        config.kafka.client_settings()
    spool = await asyncio.to_thread(Spool.open, folder, SpoolLimits.of(config.limits))
    if spool.identity.renewed is not None:
        COUNTERS.add("edge_sources_renewed", reason=spool.identity.renewed)
    host, partitions = config.agent.host_name, config.partitions
    about: dict[str, Any] = {"host": host, "partitions": partitions, "tracer": tracer, "states": states}
    return await Publisher(spool, config.kafka, settings=settings, **about).start()


@asynccontextmanager
async def supervised(
    config: Config, folder: Path, drain_s: float, tracer: Tracer | None, settings: PublisherSettings | None = None
) -> AsyncIterator[SupervisedPublisher]:
    """As ``publishing``, for a process that goes on while its spool cannot be used."""
    states = States(config.partitions)
    publisher = SupervisedPublisher(lambda: open_publisher(config, folder, settings, tracer, states), states)
    await publisher.start()
    try:
        yield publisher
    finally:
        await publisher.close(drain_s)


def secret_of(config: ProxyConfig, data_dir: Path) -> bytes:
    """Key of the hash of tenants and users: the configured one, else that of the data directory, made where missing.

    Where that directory cannot be used, one for this process alone: requests are served, and kept apart by tenant.
    Raises ConfigError where the configured one cannot be read.
    """
    if (configured := config.read("proxy").tenant_secret) is not None:
        return configured.get_secret_value().encode()
    try:
        return _kept_secret(data_dir / "proxy.tenant-secret")
    except OSError as error:
        facts = {"error": f"{type(error).__name__}: {error}"}
        _log.error("no tenant secret can be kept; tenants and users have other names until the next start", extra=facts)
        return secrets.token_hex(SECRET_BYTES).encode()


def _kept_secret(path: Path) -> bytes:
    """The secret in this file. Raises OSError where it cannot be used; one that is damaged could be guessed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        _make_secret(path)
    secret = path.read_bytes()
    if len(secret.strip(b"\0 \r\n\t")) < SECRET_BYTES_MIN:
        raise OSError(f"{path} must hold {SECRET_BYTES_MIN} bytes or more: put it back, or remove it for a new one")
    return secret


def _make_secret(path: Path) -> None:
    """It is on disk before it has its name: whatever is found under that is whole."""
    descriptor, name = mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another proxy was first: its secret counts
            path.hardlink_to(name)
            _log.warning("tenant secret made; keep it: without it tenants get other names", extra={"path": str(path)})
        sync_folder(path.parent)
    finally:
        Path(name).unlink()


class _Watch:
    """The supervisor's checks, before and after there is one."""

    def __init__(self) -> None:
        self.supervisor: Supervisor | None = None
        self.publisher: SupervisedPublisher | None = None
        self.claim: HostClaim | None = None

    def watch(self, supervisor: Supervisor) -> None:
        """Ask this one from now on."""
        self.supervisor = supervisor

    def alive(self) -> str | None:
        """None while the agent's loop turns."""
        return None if self.supervisor is None else self.supervisor.why_dead()

    def ready(self) -> str | None:
        """None when all that was chosen is collected."""
        return "probing" if self.supervisor is None else self.supervisor.why_not_ready()

    def note(self) -> str | None:
        """None while events are kept and counted once: an agent that cannot keep them still measures and answers."""
        notes = [each.why for each in (self.publisher, self.claim) if each is not None]
        return "; ".join(filter(None, notes)) or None


@asynccontextmanager
async def _claimed(host: str) -> AsyncIterator[HostClaim]:
    """Says so while another agent runs on this host."""
    from producers.agent.host_claim import LOOK_EVERY_S, HostClaim

    claim = HostClaim(host)

    async def look() -> None:
        while True:
            claim.look()
            await asyncio.sleep(LOOK_EVERY_S)

    looking = asyncio.create_task(look())
    try:
        yield claim
    finally:
        looking.cancel()
        claim.release()


def run_agent_service(spool: Path | None, seconds: float | None, health_port: int | None = None) -> list[Report]:
    """Measure this host until the seconds are over or SIGTERM; how each collector fared."""
    from producers.agent.process import run_agent

    logs.configure("agent")
    config, watch = load(), _Watch()
    agent = config.agent.read_secrets()

    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, stop.set)
        asyncio.get_running_loop().call_later(SETTLED_AFTER_S, settle)
        async with AsyncExitStack() as until_the_end:
            tracer = until_the_end.enter_context(tracing(config.tracing, "agent"))
            folder, drain_s = spool or config.data_dir / "spool" / "agent", config.agent.drain_ms / 1_000
            publisher = await until_the_end.enter_async_context(supervised(config, folder, drain_s, tracer, QUIET))
            watch.publisher = publisher
            watch.claim = await until_the_end.enter_async_context(_claimed(config.agent.host_name))
            state = config.data_dir / "agent"
            try:
                await asyncio.to_thread(state.mkdir, parents=True, exist_ok=True)
            except OSError as error:  # whoever keeps something there tries again
                _log.error("nothing is kept over a restart", extra={"folder": str(state), "error": str(error)})
            users = secret_of(config.proxy, config.data_dir) if config.proxy.user_hash else None
            await run_agent(publisher, stop, agent, state=state, user_secret=users, watched=watch.watch)

    port = config.agent.health_port if health_port is None else health_port
    # Of the loop's work a third is waking up: uvloop does that in C.
    health = (
        nullcontext()
        if port is None
        else HealthServer(port=port, alive=watch.alive, ready=watch.ready, note=watch.note)
    )
    with health:
        run_to_the_end(body(), uvloop.new_event_loop)
    return watch.supervisor.reports() if watch.supervisor else []


def probe() -> list[Finding]:
    """What the agent would collect on this host, and why not the rest; flags that its vLLMs lack."""
    from producers.agent.search import find, setting_of

    logs.configure("agent", level="WARNING")
    config = load().agent.read_secrets()
    findings = find(setting_of(config))
    advice = "; ".join(_flags_missing(config)) if any(one.chosen for one in findings if one.name == "engines") else ""
    if advice:
        return [replace(one, reason=f"{one.reason}; {advice}") if one.name == "engines" else one for one in findings]
    return findings


def _flags_missing(config: AgentConfig) -> Iterator[str]:
    """A sentence for each vLLM that would report more with other flags."""
    from producers.engines.flags import flags_missing_at
    from producers.engines.target import targets_of

    for target in targets_of(config, config.host or ""):
        if flags := flags_missing_at(target.server, target.api_key):
            yield f"the vLLM at {target.server} would report more with {', '.join(flags)}"


def run_once() -> None:
    """Print one round of all collectors as JSON lines, ``topic`` first; exit 1 when one of them gave nothing."""
    import orjson

    from producers.agent.runner import one_round
    from producers.agent.search import find, plans_of, setting_of

    logs.configure("agent", level="WARNING")
    config = load().agent.read_secrets()
    setting = setting_of(config)
    rounds = one_round(plans_of(setting, find(setting)), SystemClock(), config.period_ms / 1_000)
    for each in rounds:
        for part in each.collected:
            for row in part.rows:
                print(orjson.dumps({"topic": part.event.topic} | row, default=str).decode())
        if each.why is not None:
            _log.error("collector reported no sample", extra={"collector": each.name, "why": each.why})
    sys.stdout.flush()
    # Threads that hang must not hold up the end.
    os._exit(1 if any(each.why for each in rounds) else 0)
