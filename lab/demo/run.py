"""Run the demo: bring the stack up, let a fleet produce, watch it land, stop it, and prove the books."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import orjson
from rich.console import Console
from rich.live import Live

from fleetpulse import queries, stack
from fleetpulse.commands.dashboard import DEFAULT_PORT
from fleetpulse.commands.output import err
from fleetpulse.commands.progress import LINE_EVERY_S, spinner
from fleetpulse.migrate.bring_up import bring_up, demand_local
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.compile_ahead import has_loops
from fleetpulse.services.processes import Processes
from fleetpulse.sql.database import Database
from fleetpulse.stack.ports import free_ports, is_free
from fleetpulse.stack.report import command_for
from lab.demo import screen
from lab.demo.ending import finish_rollups, sink_lag
from lab.demo.scenario import COMPILED, JOBS, SOURCES, Scenario
from runtime.clock import SystemClock
from runtime.config import Config, own_data_dir
from runtime.file_lock import alone
from runtime.local_stack import is_wanted
from schemas.ddl.stored import RAW
from schemas.errors import FleetpulseError
from schemas.limits import MINUTE_MS, WINDOW_MS
from schemas.rows.tables import PARTIALS

READY_WITHIN_S = 300.0
HEAD_START_S = 10.0
"""So long at most the services wait for the fleet, which steps back behind them: its minute is that of the demo."""
SETTLE_WITHIN_S = 120.0
DRAIN_WITHIN_S = 20.0
LOOK_BACK_MS = 30_000
CLOSING = ("throughput_by_model", "gpu_summary", "host_summary", "errors_by_kind")
PASTE = ("percentiles_by_model", "slowest_hosts", "gpu_summary")


@dataclass(slots=True)
class _Run:
    config: Config
    scenario: Scenario
    database: Database
    processes: Processes
    console: Console
    begun_ms: int
    ended_ms: int
    before: dict[str, int]


def run_demo(*, seconds: int, seed: int, keep: bool, svg: Path | None, data_dir: Path | None) -> bool:
    """The whole demo; True when the books are exact. Ctrl-C stops early, cleanly, and still shows the books."""
    console = Console(record=svg is not None, width=118 if svg is not None else None)
    where, now_ms = stack.make_folder(own_data_dir(data_dir)), SystemClock().now_ms()
    demand_local(where)
    scenario = Scenario(seconds, seed, where / "demo" / str(now_ms), where)
    with ExitStack() as ending:
        ending.enter_context(_alone(where))
        if not keep:
            ending.callback(_leave if is_wanted(where) else stack.down, where)
        processes = ending.enter_context(Processes(scenario.folder / "log"))
        compiling = _compile(processes, scenario)
        with spinner("starting Kafka and ClickHouse", console) as show:
            config = bring_up(data_dir, show)
        _wait_for_loops(processes, compiling, console)
        database, now_ms = Database(config.reading), SystemClock().now_ms()
        run = _Run(config, scenario, database, processes, console, now_ms, now_ms, _landed(database))
        return _run_on(run, keep=keep, svg=svg)


def _leave(data_dir: Path) -> None:
    """A stack that ran before the demo is somebody's; what else works on it goes on."""
    err.print(f"the stack ran before: it stays up until: {command_for('down', data_dir)}", markup=False, soft_wrap=True)


def _alone(data_dir: Path) -> AbstractContextManager[None]:
    """One demo of a folder at a time: two would be the same jobs, and take each other's partitions. Raises
    ``FleetpulseError``."""
    return alone(data_dir / "demo.lock", f"a demo runs in {data_dir}: end it, or choose another --data-dir")


def _compile(processes: Processes, scenario: Scenario) -> tuple[str, ...]:
    """On a machine that has compiled nothing yet: compile beside the start of the stack, so that the jobs and the fleet
    begin together. Returns the names of the children that do."""
    commands = scenario.compilers(group for group, package in COMPILED.items() if not has_loops(package))
    for command in commands:
        processes.start(command)
    return tuple(command.name for command in commands)


def _wait_for_loops(processes: Processes, names: Sequence[str], console: Console) -> None:
    """What a child that failed leaves out is compiled by the job that needs it."""
    if not names:
        return
    with spinner("compiling the loops of the jobs and the simulation (once on this machine)", console):
        while any(processes.pid(name) is not None for name in names):
            time.sleep(0.1)
    processes.stop(*names)


def _run_on(run: _Run, *, keep: bool, svg: Path | None) -> bool:
    console = run.console
    _start(run)
    address = _serve(run) if keep else None
    keep = _watch(run) and keep
    report = _settle(run)
    if not keep:
        _finish(run)
    if svg is not None:
        console.export_text()  # forgets what was recorded: the picture is of the closing screen
    _close(run, report)
    if svg is not None:
        console.save_svg(str(svg), title="fleetpulse demo", clear=False)
    _show_queries(run)
    if keep:
        _keep(run, address)
    else:
        console.print("the same fleet in a browser: fleetpulse demo --keep", highlight=False)
    return report.exact


def _start(run: _Run) -> None:
    with spinner("starting the jobs (Faust) and the sink", run.console):
        run.scenario.faults_file.write_bytes(orjson.dumps(run.scenario.faults()))
        for command in run.scenario.edges():
            run.processes.start(command)
        until_s = time.monotonic() + HEAD_START_S
        while not run.scenario.fleet_spool.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        for command in run.scenario.services():
            run.processes.start(command)


def _serve(run: _Run) -> str | None:
    """Start the dashboard; its address, None where its packages are not installed."""
    if find_spec("nicegui") is None:
        run.console.print("no dashboard: it needs fleetpulse[dashboard]", markup=False, highlight=False)
        return None
    port = DEFAULT_PORT if is_free(DEFAULT_PORT) else free_ports(1, start=DEFAULT_PORT)[0]
    run.processes.start(run.scenario.dashboard(port))
    address = f"http://127.0.0.1:{port}"
    run.console.print(f"dashboard: {address}", highlight=False)
    return address


def _watch(run: _Run) -> bool:
    """Show what happens until the simulated fleet has ended; False if somebody ends it before."""
    begun_s = time.monotonic()
    try:
        _wait_for_first_events(run)
        with _pictures(run.console) as show:
            while run.processes.pid("simulate") is not None:
                run.processes.tend()
                _complain_about_dead_edges(run)
                show(_picture(run, time.monotonic() - begun_s))
                time.sleep(1.0)
        _complain_about_dead_edges(run)  # one that failed since the last look
    except KeyboardInterrupt:
        run.console.print("stopping early; the books follow")
        return False
    return True


@contextmanager
def _pictures(console: Console) -> Iterator[Callable[[screen.Picture], None]]:
    """Takes pictures: the newest stands on a terminal that can draw, elsewhere one is a line every few seconds."""
    if console.is_interactive:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda picture: live.update(screen.live(picture))
        return
    next_s = 0.0

    def line(picture: screen.Picture) -> None:
        nonlocal next_s
        if picture.elapsed_s >= next_s:
            console.print(screen.line(picture), markup=False, highlight=False, soft_wrap=True)
            next_s = picture.elapsed_s + LINE_EVERY_S

    yield line


def _wait_for_first_events(
    run: _Run, now_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Also of a fleet whose short time is over before the services are up. On a machine that is loaded each step takes
    its time: the first raw events of a topic are one, and the limit begins anew."""
    until_s, arrived = now_s() + READY_WITHIN_S, list[str]()
    with spinner("waiting for the first events", run.console):
        while now_s() < until_s:
            run.processes.tend()
            _complain_about_dead_edges(run)
            if _landed(run.database) != run.before:
                return
            if len(found := _arrived(run.database, run.begun_ms)) > len(arrived):
                until_s, arrived = now_s() + READY_WITHIN_S, found
            sleep(0.5)
    logs = "\n".join(f"{name}:\n{run.processes.tail(name)}" for name in run.processes.names())
    raise FleetpulseError(
        f"no windows landed, and nothing else for the first time within {READY_WITHIN_S:.0f} s (raw events:"
        f" {', '.join(arrived) or 'none'}); the ends of the logs:\n{logs}"
    )


def _complain_about_dead_edges(run: _Run) -> None:
    for command in run.scenario.edges():
        code = run.processes.exit_code(command.name)
        if code not in (None, 0):
            tail = run.processes.tail(command.name)
            raise FleetpulseError(f"{command.name} ended with exit code {code}; the end of its log:\n{tail}")


def _landed(database: Database) -> dict[str, int]:
    """Events in the partial rows of each topic, each event counted once (one grouping set)."""
    from schemas.events.grouping import sets_of

    parts = " UNION ALL ".join(
        f"SELECT '{topic}' AS topic, sum(event_count) AS events FROM {PARTIALS[topic].name} FINAL"
        f" WHERE grouping = '{sets_of(topic)[0].name}'"
        for topic in SOURCES
    )
    return {record["topic"]: int(record["events"] or 0) for record in database.sql(parts).records()}


def _arrived(database: Database, since_ms: int) -> list[str]:
    """Topics whose raw events are in the tables, of those that were appended since then."""
    parts = " UNION ALL ".join(
        f"SELECT '{topic}' AS topic, count() AS events FROM {RAW[topic].name} WHERE appended_ms >= {since_ms}"
        for topic in SOURCES
    )
    return [record["topic"] for record in database.sql(parts).records() if int(record["events"])]


def _picture(run: _Run, elapsed_s: float) -> screen.Picture:
    now_ms = SystemClock().now_ms()
    landed = {topic: events - run.before.get(topic, 0) for topic, events in _landed(run.database).items()}
    recent = _bounds(now_ms - LOOK_BACK_MS, now_ms + WINDOW_MS)
    notes = [f"{name} was started again" for name in run.processes.names() if run.processes.restarts(name)]
    return screen.Picture(
        elapsed_s=elapsed_s,
        seconds=run.scenario.seconds,
        counts=sorted(landed.items()),
        events_per_s=sum(landed.values()) / max(elapsed_s, 1.0),
        models=run.database.named("percentiles_by_model", recent),
        gpus=run.database.named("gpu_summary", recent),
        alerts=run.database.named("open_alerts", _bounds(run.begun_ms, now_ms + WINDOW_MS)),
        notes=notes,
    )


def _bounds(from_ms: int, to_ms: int) -> dict[str, int]:
    from_ms -= from_ms % WINDOW_MS
    return {"from_ms": from_ms, "to_ms": to_ms}


def _settle(run: _Run) -> Report:
    run.ended_ms = SystemClock().now_ms() + 1
    with spinner("stopping the producers and settling the books", run.console):
        run.processes.stop(*(command.name for command in run.scenario.edges()), within_s=DRAIN_WITHIN_S)
        report = reconcile(
            run.config.kafka, run.config.clickhouse, wait_s=SETTLE_WITHIN_S, while_waiting=run.processes.tend
        )
    run.begun_ms = _first_request_ms(run)
    return report


def _finish(run: _Run) -> None:
    kafka = run.config.kafka
    finish_rollups(run.database, run.processes, JOBS, run.console, lambda: sink_lag(kafka))


def _first_request_ms(run: _Run) -> int:
    """The window of this run's first request, where the closing range begins: the simulated fleet alone sends requests,
    and where its loops were not compiled it begins late. Without any, the start of the run."""
    first = f"SELECT min(window_ms) AS at FROM {PARTIALS['llm.requests'].name} WHERE window_ms >= {{from_ms:Int64}}"
    (found,) = run.database.sql(first, {"from_ms": run.begun_ms - run.begun_ms % WINDOW_MS}).records()
    return max(run.begun_ms, int(found["at"] or 0))


def _close(run: _Run, report: Report) -> None:
    console, bounds = run.console, _bounds(run.begun_ms, run.ended_ms)
    console.rule("[bold]fleetpulse demo[/bold]")
    latency = run.database.named("percentiles_by_model", bounds)
    console.print(screen.answer_table("Latency by model (simulated engines)", latency))
    for name in CLOSING:
        answer = run.database.named(name, bounds)
        if answer.rows:
            console.print(screen.answer_table(queries.text(name).splitlines()[0].removeprefix("-- "), answer))
    alerts = run.database.named("alert_history", bounds)
    if alerts.rows:
        console.print(screen.alerts_table(alerts))
    _print_costs(run)
    _print_books(console, report)


def _print_costs(run: _Run) -> None:
    """Bills are emitted when their minute has ended: a short demo may have none."""
    minutes = {"from_ms": run.begun_ms - run.begun_ms % MINUTE_MS, "to_ms": run.ended_ms}
    split = run.database.named("cost_split", minutes)
    if split.rows:
        run.console.print(screen.costs_table(split, run.database.named("cost_by", minutes | {"dimension": "model"})))


def _show_queries(run: _Run) -> None:
    bounds = _bounds(run.begun_ms, run.ended_ms)
    run.console.print("Three queries to paste into [bold]fleetpulse query[/bold]:")
    for name in PASTE:
        run.console.print(screen.query_panel(name, queries.filled(name, bounds)))


def _print_books(console: Console, report: Report) -> None:
    console.print(screen.books_table(report.topics))
    for difference in report.differences:
        console.print(str(difference), style="red", markup=False)
    style, word = ("green", "exact") if report.exact else ("red", "NOT exact")
    compared = f"{report.checks} comparisons of producers, offsets, raw tables, windows and rollups"
    console.print(f"books {word}: {compared}, {len(report.differences)} differences", style=f"bold {style}")


def _keep(run: _Run, address: str | None) -> None:
    """The fleet goes on, so that there is something to look at."""
    for command in run.scenario.edges_after():
        run.processes.start(command)
    run.console.print("the fleet goes on; Ctrl-C ends it")
    if address is not None:
        run.console.print(f"look at it: {address}", highlight=False)
    try:
        while True:
            run.processes.tend()
            time.sleep(1.0)
    except KeyboardInterrupt:
        down = command_for("down", run.config.data_dir)
        run.console.print(f"stopping; the stack stays up until: {down}", markup=False, highlight=False, soft_wrap=True)
        run.processes.stop(*(command.name for command in run.scenario.edges_after()), within_s=DRAIN_WITHIN_S)
        _finish(run)
