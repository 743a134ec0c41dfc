"""``fleetpulse bench``: the command line of all measurements."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import err, out, print_json

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Measure speed, size and latency on this machine, each beside its yardstick.\n\n"
    "Example: [bold]fleetpulse bench throughput --profile fleet --against clickhouse[/bold]",
)

Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where the local stack lives; the bench uses bench/ below it.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the bench's Kafka and ClickHouse running.")]
Seed = Annotated[int, typer.Option(help="Same seed, same events.")]
Results = Annotated[
    Path | None, typer.Option("--results", help="Folder for the result. Default: bench/results of a checkout.")
]


class ProfileName(StrEnum):
    """The workloads."""

    BULK = "bulk"
    FLEET = "fleet"


class FormatName(StrEnum):
    """The wire formats."""

    NATIVE = "native"
    COLUMNS = "columns"
    NDJSON = "ndjson"


class HostName(StrEnum):
    """What hosts the job's steps."""

    BARE = "bare"
    FAUST = "faust"
    BOTH = "both"


class Against(StrEnum):
    """The yardsticks beside ``orjson.loads``."""

    CLICKHOUSE = "clickhouse"


@app.command()
def throughput(
    profile: Annotated[ProfileName, typer.Option(help="bulk: 500 events a record; fleet: 1,250 hosts.")],
    format: Annotated[FormatName, typer.Option(help="How the events are written.")] = FormatName.NATIVE,
    against: Annotated[
        Against | None, typer.Option(help="Also measure ClickHouse's own Kafka engine on the same topics.")
    ] = None,
    host: Annotated[HostName, typer.Option(help="What hosts the job.")] = HostName.FAUST,
    seconds: Annotated[int | None, typer.Option(min=2, max=3_600, help="Seconds of event time to write.")] = None,
    records_per_batch: Annotated[
        int, typer.Option(min=1, max=1_000, help="Records in a Kafka batch: 1 is many senders, 100 one big one.")
    ] = 1,
    times: Annotated[int, typer.Option(min=1, max=20, help="How often each side runs; medians count.")] = 3,
    seed: Seed = 1,
    cprofile: Annotated[
        Path | None, typer.Option("--cprofile", help="Write the job's cProfile here (it slows the job down).")
    ] = None,
    json: Json = False,
    keep: Keep = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """CPU per event of the windows job, emission included, pinned to one core, in ratio to its yardsticks.

    Example: [bold]fleetpulse bench throughput --profile fleet --against clickhouse --host both[/bold]
    """
    from fleetpulse.bench import throughput as measuring

    hosts = ("bare", "faust") if host is HostName.BOTH else (host.value,)
    options = measuring.Options(
        profile=profile.value,
        format=format.value,
        against=against.value if against else None,
        hosts=hosts,
        seconds=seconds,
        records_per_batch=records_per_batch,
        times=times,
        seed=seed,
        cprofile=cprofile,
    )
    from fleetpulse.bench.progress import Progress
    from fleetpulse.bench.stand import stand

    with Progress() as progress, stand(data_dir, progress.say, keep=keep) as place:
        result = measuring.measure(place, options, progress)
    name = f"throughput-{profile.value}-{format.value}"
    _finish(name, result, seed, json=json, results=results, show=lambda: _show_throughput(result))


def _finish(name: str, result: dict[str, Any], seed: int, *, json: bool, results: Path | None, show: Any) -> None:
    from fleetpulse.bench.results import keep, plain, surroundings

    whole = {"measurement": name, **surroundings(seed), **result}
    kept = keep(name, whole, results)
    if json:
        print_json(plain(whole))
    else:
        show()
    if kept is not None:
        err.print(f"kept in {kept}", style="dim", highlight=False)


def _show_throughput(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    rows: list[tuple[Any, ...]] = [("orjson.loads of columnar JSON", result["orjson_us_per_event"], None, None)]
    rows += [
        (f"ClickHouse Kafka engine, {work} work", us, None, None)
        for work, us in result["clickhouse_us_per_event"].items()
    ]
    for host, us in result["job_us_per_event"].items():
        ratios = result["ratio_to_clickhouse"][host]
        rows.append((f"windows job, {host}", us, result["ratio_to_orjson"][host], ratios.get("lean")))
    title = f"{result['profile'].name}, {result['format']}, {result['events']:,} events, one core"
    out.print(table(title, ("what", "CPU us/event", "x orjson", "x ClickHouse"), rows))
    for one in result["compared_equal"]:
        out.print(
            f"{one.grouping}: equal in {one.windows_and_series:,} (window, series), {one.values_compared:,} values;"
            f" {one.quantiles_compared:,} quantiles within {one.quantile_error_max:.2%}",
            highlight=False,
        )
    if result["faust_to_bare"] is not None:
        out.print(f"Faust-hosted runs at {result['faust_to_bare']:.2f} x the bare loop", highlight=False)
