"""``fleetpulse bench``: measurements of single parts: the edge, stages of a job, rules, costs, the dashboard."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fleetpulse.commands.output import err
from fleetpulse.commands.progress import Progress
from lab.bench.measurement import DataDir, Measured
from schemas.errors import ConfigError

BEYOND = "beyond its bound"


def stages(
    progress: Progress,
    seed: int,
    profile: Annotated[
        Literal["bulk", "fleet", "series"], typer.Option(help="series: 12,500 GPUs, a sample of each.")
    ] = "fleet",
    seconds: Annotated[int, typer.Option(min=1, max=600, help="Seconds of event time.")] = 12,
) -> Measured:
    """CPU of every stage of the windows job without a broker: admission by format, fold, commit, snapshot.

    Example: [bold]fleetpulse bench stages --profile bulk[/bold]
    """
    from lab.bench import stages as measuring
    from lab.bench.workload import PROFILES

    result = measuring.measure(PROFILES[profile], seconds, seed, progress.say)
    by_topic = result["by_topic"]
    names = next(iter(by_topic.values()))
    rows = [(name, *(one[name] for one in by_topic.values())) for name in names]
    title = f"Stages of the windows job: {profile}, one partition of {measuring.PARTITIONS}, one core"
    return Measured(f"stages-{profile}", result, [(title, ("metric", *by_topic), rows)])


EDGE = ("agent", "agent_engine", "proxy", "sdk")
"""Modules of parts of the edge: each gives numbers and, as ``within``, which bounds they keep."""


def edge(
    progress: Progress,
    seed: int,
    seconds: Annotated[int, typer.Option(min=2, max=3_600, help="How long each part is watched.")] = 60,
    part: Annotated[
        list[str] | None,
        typer.Option("--part", help="agent, agent_engine, proxy or sdk; several times for several. Default: all."),
    ] = None,
) -> Measured:
    """What the edge costs: agent on stub GPUs, also beside an engine; proxy; SDK. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench edge --seconds 60 --json[/bold]
    """
    wanted = part or EDGE
    if unknown := [name for name in wanted if name not in EDGE]:
        raise ConfigError("--part", unknown[0], f"must be one of {', '.join(EDGE)}")
    result = {name: import_module(f"lab.bench.{name}").measure(seconds, progress.say) for name in wanted}
    return measured_edge(result)


def measured_edge(result: dict[str, dict[str, Any]]) -> Measured:
    """Every number of each part, and the bounds that were not kept, as ``part.bound``."""
    beyond = [
        f"{part}.{bound}" for part, one in result.items() for bound, kept in one.get("within", {}).items() if not kept
    ]
    rows = [
        (part, name, value)
        for part, one in result.items()
        for name, value in one.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    ]
    return Measured("edge", result, [("The edge", ("part", "metric", "value"), rows)], wrong={BEYOND: beyond})


def insight(
    progress: Progress,
    seed: int,
    series: Annotated[int, typer.Option(min=100, max=1_000_000, help="Series under each rule.")] = 100_000,
    windows: Annotated[int, typer.Option(min=1, max=10_000, help="Windows that are measured.")] = 10,
) -> Measured:
    """Baselines and rules on one core: series-windows a second, memory per series, snapshot. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench insight --series 100000 --json[/bold]
    """
    from lab.bench import insight as measuring

    result = measuring.measure(series, windows, seed, progress.say)
    title = f"Insight: {series:,} series a rule, {windows} windows, one core"
    tables = [(title, ("metric", "value", "bound"), measuring.rows(result))]
    return Measured("insight", result, tables, wrong={BEYOND: measuring.outside(result)})


def shapes(
    progress: Progress,
    seed: int,
    series: Annotated[int, typer.Option(min=10, max=100_000, help="Series of each shape.")] = 1_000,
    detector: Annotated[str, typer.Option(help="novelty, deviation or moving_average.")] = "novelty",
    only: Annotated[str, typer.Option(help="Shapes, separated by commas. Default: all.")] = "",
) -> Measured:
    """What a detector sees in series of many shapes: found, delay, false alarms. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench shapes --series 100 --detector deviation[/bold]
    """
    from lab.bench import shapes as measuring

    wanted = tuple(filter(None, only.split(",")))
    if unknown := sorted(set(wanted) - set(measuring.SHAPES)):
        raise ConfigError("--only", ",".join(unknown), f"must be of {', '.join(measuring.SHAPES)}")
    result = measuring.measure(detector, series, seed, wanted, progress.say)
    head = ("shape", "found", "delay p50, min", "p95", "false in 100 days", "points a CPU-s")
    tables = [(f"{detector}: {series:,} series of each shape", head, measuring.rows(result))]
    return Measured("shapes", result, tables, wrong={BEYOND: measuring.outside(result)})


def judging(
    progress: Progress,
    seed: int,
    gpus: Annotated[int, typer.Option(min=1_000, max=1_000_000, help="GPUs of the fleet, in thousands.")] = 100_000,
    upstreams: Annotated[int, typer.Option(min=2, max=1_024, help="Partitions of window.partials.")] = 64,
    windows: Annotated[int, typer.Option(min=6, max=1_000, help="Windows that are measured.")] = 6,
) -> Measured:
    """The alert job on one core, one upstream a window late: processor time of a window, delay. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench judging --gpus 100000 --json[/bold]
    """
    from lab.bench import judging as measuring

    result = measuring.measure(gpus, upstreams, windows, seed, progress.say)
    title = f"Judging: {result['gpus']:,} GPUs, {upstreams} upstreams, {windows} windows, one core"
    tables = [(title, ("metric", "value", "bound"), measuring.rows(result))]
    return Measured("judging", result, tables, wrong={BEYOND: measuring.outside(result)})


def alerts(
    progress: Progress,
    seed: int,
    hosts: Annotated[int, typer.Option(min=8, max=1_250, help="Hosts of eight GPUs.")] = 312,
    seconds: Annotated[int, typer.Option(min=90, max=3_600, help="How long the fleet runs.")] = 180,
    data_dir: DataDir = None,
) -> Measured:
    """How soon alerts stand on their topic while a fleet runs and GPUs fail. Exit 1 beyond a bound.

    Example: [bold]fleetpulse bench alerts --hosts 312 --seconds 180[/bold]
    """
    from lab.bench.alerting import measure

    result = measure(data_dir, hosts, seconds, seed, progress)
    columns = ("by", "p50_s", "p99_s", "max_s", "count")
    rows = [(name, *(result[name][key] for key in columns[1:])) for name in ("events", "rules", "finals")]
    title = "From a GPU's loss, and from a window's last finals, to the alert; from a window's end to its last finals"
    beyond = [name for name, within in result["within"].items() if not within]
    return Measured("alerts", result, [(title, columns, rows)], wrong={BEYOND: beyond})


def dashboard(
    progress: Progress,
    seed: int,
    gpus: Annotated[int, typer.Option(min=8, max=100_000, help="GPUs of the history, eight to a host.")] = 10_000,
    hours: Annotated[int, typer.Option(min=1, max=48, help="Hours of history, each level as far as it is read.")] = 1,
    times: Annotated[int, typer.Option(min=3, max=1_000, help="How often each query and page runs.")] = 20,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the filled tables on disk, for --kept.")] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Ask the tables that an earlier --keep filled (same GPUs, hours and seed).")
    ] = False,
    ask: Annotated[bool, typer.Option(help="With --no-ask --keep only fill, and ask another time.")] = True,
    data_dir: DataDir = None,
) -> Measured | None:
    """How long every query of the dashboard and every page takes over a big fleet. Exit 1 beyond a bound,
    or when a query finds nothing.

    Filling takes minutes. To ask another time: [bold]--keep --no-ask[/bold], then [bold]--kept[/bold].

    Example: [bold]fleetpulse bench dashboard --gpus 10000 --hours 24[/bold]
    """
    from lab.bench.dashboard import Options, measure

    result = measure(data_dir, Options(gpus - gpus % 8, hours, times, seed, keep, kept, ask), progress)
    if not ask:
        err.print(f"filled with {result['rows']:,} rows; ask them with --kept", style="dim", highlight=False)
        return None
    timed = result["queries"] | result["people"] | (result["pages"] or {})
    rows = [(name, one["p50_ms"], one["p95_ms"], one.get("refused")) for name, one in timed.items()]
    title = f"Dashboard over {result['gpus']:,} GPUs, {hours} h"
    wrong = {
        BEYOND: result["beyond"],
        "tables that queries read and nothing was filled into": result["empty_tables"],
        "found nothing, so their time says nothing": result["found_nothing"],
    }
    return Measured("dashboard", result, [(title, ("query or page", "p50 ms", "p95 ms", "refused"), rows)], (), wrong)


def cost(
    progress: Progress,
    seed: int,
    gpus: Annotated[int, typer.Option(min=8, max=1_000_000, help="GPUs of the fleet.")] = 10_000,
    engines: Annotated[int, typer.Option(min=8, max=100_000, help="Engines that share them.")] = 2_000,
    tenants: Annotated[int, typer.Option(min=1, max=100_000, help="Tenants in all.")] = 200,
    per_engine: Annotated[int, typer.Option(min=1, max=1_000, help="Tenants at work on each engine.")] = 10,
    minutes: Annotated[int, typer.Option(min=1, max=10_000, help="Minutes that are measured.")] = 5,
) -> Measured:
    """The cost job on one core: how many times real time it folds, bills and splits a fleet. Exit 1 below the bound.

    Example: [bold]fleetpulse bench cost --gpus 10000 --engines 2000 --tenants 200 --json[/bold]
    """
    from lab.bench import cost as measuring
    from lab.bench.cost import Fleet

    fleet = Fleet(gpus, engines, tenants, min(per_engine, tenants))
    result = measuring.measure(fleet, minutes, measuring.WARM_MINUTES, seed, progress.say)
    title = f"Costs: {gpus:,} GPUs, {engines:,} engines, {tenants} tenants, one core"
    slow = result["times_real"] < measuring.TIMES_REAL_MIN
    wrong = {BEYOND: [f"{measuring.TIMES_REAL_MIN:g} times real time"] if slow else []}
    return Measured("cost", result, [(title, ("metric", "value", "bound"), measuring.rows(result))], (), wrong)


class EngineName(StrEnum):
    """Engines that are not ours; an option that is given several times takes an enumeration only."""

    MOCK = "mock"
    LLAMA = "llama"


def counterparts(
    progress: Progress,
    seed: int,
    engine: Annotated[list[EngineName] | None, typer.Option(help="Several times for several. Default: both.")] = None,
    through: Annotated[Literal["spool", "stack"], typer.Option(help="Rows as published, or as they landed.")] = "spool",
    requests: Annotated[int, typer.Option(min=1, help="Requests to each engine.")] = 240,
    streams: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 4,
    environments: Annotated[
        Path | None, typer.Option(help="Keep virtual environments here. Default: made and removed.")
    ] = None,
    logs: Annotated[Path | None, typer.Option(help="Keep logs and exports here. Default: removed.")] = None,
    realtime: Annotated[
        bool, typer.Option("--realtime", help="Mock, proxy and client before all else (root, chrt).")
    ] = False,
) -> Measured:
    """The proxy's numbers beside those of an independent client, on an engine that is not ours. Exit 1 if they differ.

    Example: [bold]fleetpulse bench counterparts --engine mock --through stack[/bold]
    """
    from lab.bench import counterparts as measuring

    options = measuring.Options(through, requests, streams, seed, realtime)
    found = measuring.measure_all([one.value for one in engine or EngineName], options, environments, logs, progress)
    differing = [one["engine"] for one in found if not one["agrees"]]
    tables = [table for one in found for table in measuring.tables(one)]
    return Measured("counterparts", {"comparisons": found}, tables, wrong={"differs": differing})


class PeerName(StrEnum):
    """Others that can answer the question of ``bench peers``."""

    CLICKHOUSE = "clickhouse"
    QUIX = "quix"
    FAUST = "faust"
    FLINK = "flink"


def peers(
    progress: Progress,
    seed: int,
    against: Annotated[list[PeerName] | None, typer.Option(help="Several times for several. Default: all.")] = None,
    windows: Annotated[int, typer.Option(min=1, max=60, help="Windows of 10 s, as fast as can be.")] = 2,
    hosts: Annotated[int, typer.Option(min=1, max=5_000, help="Hosts of 40 requests a second each.")] = 1_250,
    paced_windows: Annotated[
        int, typer.Option(min=0, max=60, help="Windows in real time, with kill -9 in the last but one. 0: none.")
    ] = 6,
    paced_hosts: Annotated[int, typer.Option(min=1, max=1_250, help="Hosts in real time.")] = 50,
    environments: Annotated[
        Path | None, typer.Option(help="Where virtual environments are kept. Default: in the data folder.")
    ] = None,
    data_dir: DataDir = None,
) -> Measured:
    """The windows job beside others that answer the same question: CPU, memory, freshness, kill -9.

    Example: [bold]fleetpulse bench peers --against quix --windows 1 --hosts 100[/bold]
    """
    from lab.bench import peers as measuring
    from lab.bench.peers_answers import COLUMNS, table, wrong_of_ours
    from lab.bench.stand import fresh_stand
    from runtime.config import load

    if paced_windows == 1:
        raise ConfigError("--paced-windows", 1, "must be 0, or 2 at least: the kill is in the last but one")
    made = environments or load({"data_dir": data_dir}).data_dir / "environments"
    wanted = tuple(one.value for one in against or PeerName)
    options = measuring.Options(wanted, windows, hosts, paced_hosts, paced_windows, seed)
    with fresh_stand(data_dir, progress.say, folder="bench-peers") as place:
        result = measuring.measure(place, options, made.resolve(), progress)
    title = f"{result['events']:,} requests in {result['series']:,} windows and series, one core each"
    wrong = {"not the exact answer, or not after a kill": wrong_of_ours(result["sides"])}
    return Measured("peers", result, [(title, COLUMNS, table(result["sides"]))], wrong=wrong)


COMMANDS = (stages, edge, insight, shapes, judging, alerts, dashboard, cost, counterparts, peers)
