"""The lab's commands, which appear in ``fleetpulse`` where the distribution is installed.

Modules with compiled loops are imported when a command runs, so that ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fleetpulse.commands.edge import Seconds, Spool
from fleetpulse.commands.money import PricesFile, audited
from fleetpulse.commands.output import Result, answers, err, out, print_rows
from fleetpulse.commands.services import HealthPort
from fleetpulse.report import EXAMPLE_PRICES
from lab.evaluate.command import evaluate

PANEL = "Lab"


def register(app: typer.Typer) -> None:
    """Add the commands; ``audit simulated`` joins the product's group ``audit``."""
    from fleetpulse.commands.money import audits
    from lab.bench.command import app as bench

    for command in (demo, simulate, replay, chaos, drills, soak, evaluate, oracle):
        app.command(rich_help_panel=PANEL)(command)
    app.add_typer(bench, name="bench", rich_help_panel=PANEL)
    audits.command("simulated")(audit_simulated)


def compiled() -> dict[str, Callable[[], None]]:
    """What ``fleetpulse compile`` compiles for the lab, by the command that needs it."""
    from lab.simulator.run import warm_up

    return {"simulate": warm_up}


def replay(
    file: Annotated[Path, typer.Argument(help="The trace.")],
    format: Annotated[
        Literal["azure", "jsonl"], typer.Option(help="azure: the Azure LLM inference traces; jsonl: our fields.")
    ],
    speed: Annotated[str, typer.Option(help="Gaps are divided by this number; max leaves none.")] = "1",
    model: Annotated[str, typer.Option(help="Model name for traces that hold none.")] = "replayed",
    spool: Spool = None,
) -> None:
    """Send the requests of a trace as they arrived, only faster. Azure traces hold no latencies: those stay null.

    Example: [bold]fleetpulse replay AzureLLMInferenceTrace_conv.csv --format azure --speed 60[/bold]
    """
    from lab.simulator.service import run_replay

    run_replay(file, format, speed, model, spool)


def simulate(
    gpus: Annotated[int, typer.Option(min=1, max=100_000, help="How many GPUs, eight to a host.")] = 64,
    load: Annotated[
        Literal["azure", "poisson", "bulk"],
        typer.Option(help="azure: engines fed by the traces; bulk: statistics for big fleets."),
    ] = "azure",
    speed: Annotated[float, typer.Option(min=0.01, help="How much faster the trace arrives.")] = 60.0,
    rate: Annotated[float, typer.Option(min=0.0, help="Requests per second and host, for poisson and bulk.")] = 40.0,
    seed: Annotated[int, typer.Option(help="Same seed, same fleet and same requests.")] = 1,
    seconds: Seconds = None,
    faults: Annotated[Path | None, typer.Option(help="JSON file with a labelled schedule of faults.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Folder to write the ground truth to.")] = None,
    shared_gpu: Annotated[
        bool, typer.Option("--shared-gpu", help="One more host, of a single GPU that two engines share.")
    ] = False,
    spool: Spool = None,
    health_port: HealthPort = None,
) -> None:
    """Simulate hosts, GPUs and engines whose latencies, power, memory and energy agree with one another.

    Example: [bold]fleetpulse simulate --gpus 64 --load azure --speed 60 --seconds 60[/bold]
    """
    from fleetpulse.services.compile_ahead import provide

    provide()
    from lab.simulator.service import SimulateOptions, run_simulate

    options = SimulateOptions(gpus, load, speed, rate, seed, seconds, faults, truth, shared_gpu)
    run_simulate(options, spool, health_port)


DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where the local stack lives.")]


def demo(
    seconds: Annotated[int, typer.Option(min=5, max=86_400, help="How long load is produced.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the simulated fleet.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Serve the dashboard, and let the fleet go on afterwards.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Also save the closing screen as an SVG picture.")] = None,
    data_dir: DataDir = None,
) -> None:
    """A 64-GPU fleet under the Azure traces on this machine, from the edge to SQL, ending with exact books.

    Example: [bold]fleetpulse demo --seconds 60[/bold], [bold]fleetpulse demo --keep[/bold]
    """
    from lab.demo.run import run_demo

    if not run_demo(seconds=seconds, seed=seed, keep=keep, svg=svg, data_dir=data_dir):
        raise typer.Exit(1)


@answers
def chaos(
    kills: Annotated[int, typer.Option(min=1, max=10_000, help="How many kill -9.")] = 20,
    seed: Annotated[int, typer.Option(help="Same seed, same blows.")] = 1,
    gpus: Annotated[int, typer.Option(min=8, help="Size of the simulated fleet that makes the load.")] = 64,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Three brokers and two shards, which are killed and frozen one by one.")
    ] = False,
    faults: Annotated[
        Literal["edge"] | None,
        typer.Option(help="edge: faults of disk, clock, limits and Kafka under a proxy and an agent instead."),
    ] = None,
    only: Annotated[str | None, typer.Option(help="With --faults: the fault of this name alone.")] = None,
    outage: Annotated[
        Literal["clickhouse", "kafka"] | None,
        typer.Option(help="That one away for --minutes under an even load instead: nothing lost, how soon made good."),
    ] = None,
    minutes: Annotated[float, typer.Option(min=0.2, max=600, help="With --outage: how long it is away.")] = 10.0,
    streams: Annotated[int, typer.Option(min=1, max=4_000, help="With --faults: streams at a time.")] = 64,
    seconds: Annotated[float, typer.Option(min=1.0, help="With --faults: how long each fault lasts.")] = 10.0,
    data_dir: DataDir = None,
) -> Result:
    """Kill -9 producer, job, sink, Kafka and ClickHouse under load, freeze workers, double them; then compare with the
    generator's own truth.

    Example: [bold]fleetpulse chaos --kills 100 --seed 1[/bold], [bold]fleetpulse chaos --faults edge[/bold],
    [bold]fleetpulse chaos --faults edge --only "Kafka away" --seconds 600[/bold],
    [bold]fleetpulse chaos --cluster --kills 20[/bold],
    [bold]fleetpulse chaos --outage clickhouse --minutes 10 --gpus 5000[/bold]
    """
    if outage is not None:
        return chaos_outage(outage, minutes, gpus, seed, data_dir)
    if faults is not None:
        from lab.chaos.edge import run_edge
        from runtime.config import load

        folder = load({"data_dir": data_dir}).data_dir
        edge = run_edge(streams=streams, fault_s=seconds, only=only, data_dir=folder, say=err.print)
        return Result(edge.as_dict(), lambda: out.print(edge.text(), markup=False), wrong=not edge.exact)
    from lab.chaos.run import run_chaos

    report = run_chaos(kills=kills, seed=seed, gpus=gpus, data_dir=data_dir, say=err.print, cluster=cluster)
    return Result(report.as_dict(), lambda: out.print(report.text(), markup=False), wrong=not report.exact)


def chaos_outage(part: str, minutes: float, gpus: int, seed: int, data_dir: Path | None) -> Result:
    """One part away for a while."""
    from fleetpulse.commands.progress import Progress
    from lab.chaos.outage import run_outage

    with Progress() as progress:
        found = run_outage(part, minutes=minutes, gpus=gpus, seed=seed, data_dir=data_dir, progress=progress)
    return Result(found.as_dict(), lambda: out.print(found.text(), markup=False), wrong=not found.holds)


@answers
def drills(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME ...", help="Beginnings of names; all.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated fleet.")] = 1,
    outage_s: Annotated[
        float | None, typer.Option(min=1.0, help="So long each fault lasts at least. Default: each drill's own.")
    ] = None,
    within_s: Annotated[float, typer.Option(min=1.0, help="So soon every channel has to show it.")] = 60.0,
    data_dir: DataDir = None,
) -> Result:
    """Break one thing at a time on a stack of its own; what shows it, whether the runbook mends it, exact books.

    Watched are logs, /readyz, the shipped Prometheus alerts, doctor and page Pipeline; all have to name the same cause.
    Pasted are the lines of docs/how-to/running.md. Needs a checkout; alerts need a Prometheus on this machine.

    Example: [bold]fleetpulse drills[/bold], [bold]fleetpulse drills "sink gone" --outage-s 30 --json[/bold]
    """
    from lab.drills.run import CHANNELS, run_drills

    found = run_drills(names or (), seed=seed, outage_s=outage_s, within_s=within_s, data_dir=data_dir, say=err.print)

    def shown() -> None:
        rows = [
            [
                one.name,
                *(one.when(name) for name in CHANNELS),
                "; ".join(one.mended.pasted),
                ("no" if one.mended.within_s is None else f"{one.mended.within_s:.0f} s")
                + (f"; left: {one.mended.left}" if one.mended.left else ""),
                one.compared,
                one.verdict,
            ]
            for one in found
        ]
        print_rows("Drills", ("fault", *CHANNELS, "pasted", "mended", "books", "verdict"), rows, empty="no drills")

    return Result({"drills": [one.as_dict() for one in found]}, shown, wrong=not all(one.good for one in found))


@answers
def soak(
    hours: Annotated[float, typer.Option(min=0.02, max=240, help="How long the load lasts.")] = 1.0,
    hosts: Annotated[int, typer.Option(min=1, max=12_500, help="Simulated hosts of eight GPUs.")] = 625,
    seed: Annotated[int, typer.Option(help="Seed of the simulated fleet.")] = 1,
    data_dir: DataDir = None,
) -> Result:
    """An even load through all jobs and the sink for hours: nothing may grow. Exit 1 where something does.

    Looks at the memory and open files of every process, consumer lag, parts of ClickHouse, files on disk and the
    queries of the dashboard; the first third is start-up. The books are compared at the end. Ctrl-C ends it early.

    Example: [bold]fleetpulse soak --hours 1 --hosts 625[/bold],
    [bold]fleetpulse soak --hours 0.2 --hosts 8 --json[/bold]
    """
    from fleetpulse.commands.progress import Progress
    from lab.soak.run import run_soak

    with Progress() as progress:
        found = run_soak(hours=hours, hosts=hosts, seed=seed, data_dir=data_dir, progress=progress)
    wrong = found.stopped_s is None or f"ended after {found.stopped_s:.0f} of {found.seconds} s"
    return Result(found.as_dict(), lambda: show_soak(found), wrong=wrong if not found.holds else False)


def show_soak(soak: Any) -> None:
    """The table of a soak for people."""
    columns = ("what", "at first", "at last", "growth %", "at most", "verdict")
    words = {True: "holds", False: "GREW", None: "–"}
    rows = [
        [
            f"{line.name} [{line.unit}]" if line.unit else line.name,
            *(_rounded(value) for value in (line.begin, line.end)),
            None if line.growth is None else round(100 * line.growth, 1),
            _rounded(line.most),
            words[line.holds],
        ]
        for line in soak.lines
    ]
    print_rows("Soak", columns, rows, empty="nothing was seen")
    for note in soak.notes:
        out.print(note, markup=False, highlight=False)
    if soak.books is not None:
        out.print(soak.books.text(), markup=False, highlight=False)


def _rounded(value: float | None) -> float | int | None:
    return value if value is None or abs(value) < 100 else round(value)


@answers
def audit_simulated(
    seed: Annotated[int, typer.Option(min=0, help="Seed of fleet, faults, delays and kills.")] = 1,
    hours: Annotated[float, typer.Option(min=0.1, max=240, help="How long the day is.")] = 24.0,
    prices: PricesFile = None,
    html: Annotated[Path | None, typer.Option(help="Also write the day's report to a file.")] = None,
    data_dir: DataDir = None,
) -> Result:
    """A simulated day in a database of its own, audited like the live tables. Exit 0 only if exact.

    The day has faults, late data, groups over hosts, MIG and shared GPUs; both jobs are killed now and then, on a
    virtual clock.

    Example: [bold]fleetpulse audit simulated --hours 24 --json[/bold]
    """
    from lab.audit.simulated import simulated

    return audited(simulated(seed, hours, prices or EXAMPLE_PRICES, data_dir, html))


@answers
def oracle(
    ranges: Annotated[int, typer.Option(min=1, max=10_000, help="How many ranges.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Same seed over the same data, same ranges.")] = 1,
    rules: Annotated[
        Path | None, typer.Option(help="Rules whose slo_classes requests are judged by. Default: those of the demo.")
    ] = None,
    data_dir: DataDir = None,
) -> Result:
    """Every page's, board's and view's answer over random ranges beside single requests, counted one by one.

    Over what the local stack holds (fleetpulse up), once nothing more is produced: ranges of a minute to thirty days
    with any ends, before, across and after the requests. Exit 1 when one differs.

    Example: [bold]fleetpulse oracle --ranges 200 --seed 1[/bold]
    """
    import os
    from contextlib import ExitStack, closing

    from fleetpulse.commands.progress import Progress
    from fleetpulse.sql.database import Database
    from lab.demo.scenario import RULES
    from lab.oracle.run import oracle as compared
    from runtime.clock import SystemClock
    from runtime.config import load
    from stream_jobs.rules.load import load_set

    classes = load_set(rules or RULES).slo_classes
    objectives = {one.name: (one.ttft_us, one.tpot_us, one.e2e_us) for one in classes}

    login = load({"data_dir": data_dir}).reading
    with ExitStack() as stack:
        databases = [stack.enter_context(closing(Database(login))) for _ in range(os.cpu_count() or 1)]
        asks = [lambda sql, bound, one=one: one.sql(sql, bound).records() for one in databases]
        on_progress = stack.enter_context(stack.enter_context(Progress()).task(f"{ranges} ranges"))
        found = compared(asks, ranges, seed, SystemClock().now_ms(), objectives, on_progress)
    return Result(found.as_dict(), lambda: _show_oracle(found.as_dict()), wrong=not found.exact)


def _show_oracle(found: dict[str, Any]) -> None:
    names = ("face", "metric", "compared", "of_something", "different")
    rows = [[line[name] for name in names] for line in found["lines"]]
    title = f"{found['requests']:,} requests over {found['ranges']} ranges"
    print_rows(title, [name.replace("_", " ") for name in names], rows, empty="no request in the tables")
    for line in found["lines"]:
        for example in line["examples"]:
            err.print(f"{line['face']}, {line['metric']}: {example}", markup=False, highlight=False)
    if found["lines"] and found["silent"]:
        err.print(f"nothing said over any range: {', '.join(found['silent'])}", markup=False, highlight=False)
