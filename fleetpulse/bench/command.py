"""``fleetpulse bench``: the command line of all measurements."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.bench.alerting_command import alerts
from fleetpulse.bench.cost_command import cost
from fleetpulse.bench.dashboard_command import dashboard
from fleetpulse.bench.edge_command import edge
from fleetpulse.bench.insight_command import insight
from fleetpulse.bench.telling import DataDir, Json, Keep, Results, Seed, finish
from fleetpulse.commands.output import out

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Measure speed, size and latency on this machine, each beside its yardstick.\n\n"
    "Example: [bold]fleetpulse bench throughput --profile fleet --against clickhouse[/bold]",
)
app.command()(edge)
app.command()(insight)
app.command()(alerts)
app.command()(dashboard)
app.command()(cost)


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
    whole_path: Annotated[
        bool, typer.Option("--whole-path", help="Job + sink + server against the engine, both keeping raw rows.")
    ] = False,
    json: Json = False,
    keep: Keep = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """CPU per event of the windows job, emission included, pinned to one core, in ratio to its yardsticks.

    Example: [bold]fleetpulse bench throughput --profile fleet --against clickhouse --host both[/bold]
    """
    from fleetpulse.bench import throughput as measuring
    from fleetpulse.bench.progress import Progress
    from fleetpulse.bench.stand import stand

    if whole_path:
        _whole_path(profile.value, seconds, records_per_batch, seed, json=json, results=results, data_dir=data_dir)
        return

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
    with Progress() as progress, stand(data_dir, progress.say, keep=keep) as place:
        result = measuring.measure(place, options, progress)
    name = f"throughput-{profile.value}-{format.value}"
    finish(name, result, seed, json=json, results=results, show=lambda: _show_throughput(result))


def _whole_path(
    profile: str,
    seconds: int | None,
    records_per_batch: int,
    seed: int,
    *,
    json: bool,
    results: Path | None,
    data_dir: Path | None,
) -> None:
    from fleetpulse.bench import whole_path as measuring
    from fleetpulse.bench.progress import Progress
    from fleetpulse.bench.stand import fresh_stand

    with Progress() as progress, fresh_stand(data_dir, progress.say) as place:
        result = measuring.measure(place, profile, seconds, records_per_batch, seed, progress)
    finish(f"whole-path-{profile}", result, seed, json=json, results=results, show=lambda: _show_whole(result))


def _show_whole(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    events = result["events"]
    rows: list[tuple[Any, ...]] = [
        (f"ours: {name}", 1e6 * spent / events, None) for name, spent in result["ours"]["side"].cpu_s.items()
    ]
    rows.append(("ours, all", result["ours"]["us_per_event"], None))
    rows += [
        (f"ClickHouse's Kafka engine, {work} work", one["us_per_event"], result["ratio"][work])
        for work, one in result["clickhouse"].items()
    ]
    title = f"Whole path, raw rows kept: {result['profile'].name}, {events:,} events, one core"
    out.print(table(title, ("what", "CPU us/event", "x ours"), rows))


def _show_throughput(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    rows: list[tuple[Any, ...]] = [("orjson.loads of columnar JSON", result["orjson_us_per_event"], None, None)]
    rows += [
        (f"ClickHouse Kafka engine, {work} work", us, None, None)
        for work, us in result["clickhouse_us_per_event"].items()
    ]
    for host, us in result["job_us_per_event"].items():
        ratios = result["ratio_to_clickhouse"][host]
        rows.append((f"windows job, {host}", us, result["ratio_to_orjson"][host], ratios.get("same")))
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


@app.command()
def live(
    hosts: Annotated[int, typer.Option(min=8, max=5_000, help="Hosts of eight GPUs each.")] = 1_250,
    seconds: Annotated[int, typer.Option(min=15, max=3_600, help="How long the fleet sends.")] = 60,
    search: Annotated[bool, typer.Option("--search", help="When that many do not keep up, find how many do.")] = False,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """A whole fleet in real time on this machine, raw tables and all: lag, exact books, CPU by process.

    Example: [bold]fleetpulse bench live --hosts 1250 --seconds 60 --search[/bold]
    """
    from fleetpulse.bench import live as measuring
    from fleetpulse.bench.progress import Progress

    with Progress() as progress:
        if search:
            tried = measuring.search(data_dir, hosts, seconds, seed, progress)
        else:
            tried = [measuring.verdict(measuring.measure(data_dir, hosts, seconds, seed, progress))]
    largest = max((one["gpus"] for one in tried if one["keeps_up"]), default=None)
    result = {"largest_fleet_gpus": largest, "tried": tried}
    finish("live", result, seed, json=json, results=results, show=lambda: _show_live(result))
    if largest is None or not (search or tried[0]["keeps_up"]):
        raise typer.Exit(1)


def _show_live(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    columns = ("GPUs", "keeps up", "events/s", "lag max s", "rise s/s", "late", "books exact", "cores")
    rows = [
        (
            one["gpus"],
            one["keeps_up"],
            int(one["events_per_s"]),
            max(one["lag_s_max"].values()),
            max(one["lag_rise_s_per_s"].values()),
            not one["simulator_punctual"],
            one["books_exact"],
            one["cores_total"],
        )
        for one in result["tried"]
    ]
    out.print(table("Live fleets", columns, rows))
    last = result["tried"][-1]
    shares = [(name, share, last["memory_peak_bytes"].get(name)) for name, share in last["cores"].items()]
    out.print(table(f"CPU at {last['gpus']:,} GPUs", ("process", "cores", "memory peak bytes"), shares))
    if last["books"]["differences"]:
        out.print(f"differences: {last['books']['differences'][:5]}", highlight=False)


@app.command()
def freshness(
    hosts: Annotated[int, typer.Option(min=1, max=5_000, help="Hosts of eight GPUs each.")] = 312,
    seconds: Annotated[int, typer.Option(min=40, max=3_600, help="How long the fleet sends.")] = 120,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """From a window's end plus lateness until all its rows answer to SQL, at a quarter of the full load.

    Example: [bold]fleetpulse bench freshness --hosts 312 --seconds 120[/bold]
    """
    from fleetpulse.bench import freshness as measuring
    from fleetpulse.bench.progress import Progress

    with Progress() as progress:
        result = measuring.measure(data_dir, hosts, seconds, seed, progress)
    finish("freshness", result, seed, json=json, results=results, show=lambda: _show_freshness(result))


def _show_freshness(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    rows = [(name, one["windows"], one["p50_s"], one["max_s"]) for name, one in result["by_grouping"].items()]
    rows.append(("all", result["windows"], result["p50_s"], result["max_s"]))
    title = f"Window end + lateness to complete in SQL, {result['gpus']:,} GPUs"
    out.print(table(title, ("grouping set", "windows", "p50 s", "max s"), rows))
    out.print(f"p99 {result['p99_s']:.2f} s; asked every {result['asked_every_s']} s", highlight=False)


@app.command()
def lifecycle(
    times: Annotated[int, typer.Option(min=1, max=50, help="How often each is tried.")] = 3,
    host: Annotated[HostName, typer.Option(help="What hosts the job (both is not possible here).")] = HostName.FAUST,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """How long a job takes to its first record, from SIGTERM to its end, and from kill -9 to its successor's commit.

    Example: [bold]fleetpulse bench lifecycle --times 5[/bold]
    """
    from fleetpulse.bench import lifecycle as measuring
    from fleetpulse.bench.progress import Progress
    from schemas.errors import ConfigError

    if host is HostName.BOTH:
        raise ConfigError("--host", host.value, "must be bare or faust")
    with Progress() as progress:
        result = measuring.measure(data_dir, times, host.value, seed, progress)
    finish(f"lifecycle-{host.value}", result, seed, json=json, results=results, show=lambda: _show_lifecycle(result))


def _show_lifecycle(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    names = {
        "start_s": "start to first record",
        "stop_s": "SIGTERM to exit",
        "again_s": "start to first record, right after SIGTERM",
        "restart_s": "kill -9 to commit of the restarted worker",
        "standby_s": "kill -9 to commit of a standing-by worker",
    }
    rows = [(text, min(result[name]), result["max"][name]) for name, text in names.items()]
    out.print(table(f"Life of a job, {result['shell']}", ("what", "least s", "most s"), rows))


@app.command()
def size(
    hosts: Annotated[int, typer.Option(min=1, max=2_000, help="Hosts of eight GPUs each.")] = 64,
    seconds: Annotated[int, typer.Option(min=15, max=3_600, help="How long the fleet sends.")] = 45,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """Bytes per event in Kafka and in every table of ClickHouse; memory of the job at 100,000 series.

    Example: [bold]fleetpulse bench size --hosts 64[/bold]
    """
    from fleetpulse.bench import size as measuring
    from fleetpulse.bench.progress import Progress

    with Progress() as progress:
        result = measuring.measure(data_dir, hosts, seconds, seed, progress)
    finish("size", result, seed, json=json, results=results, show=lambda: _show_size(result))


def _show_size(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    wire = result["value_bytes_per_event"]
    rows = [
        (topic, count, wire[topic], result["kafka_bytes_per_event"][topic]) for topic, count in result["events"].items()
    ]
    out.print(table("Source topics", ("topic", "events", "value bytes/event", "in Kafka bytes/event"), rows))
    rows = [(name, None, None, share) for name, share in result["kafka_derived_bytes_per_event"].items()]
    out.print(table("Derived topics, per source event", ("topic", "", "", "in Kafka bytes/event"), rows))
    tables = [
        (name, one["rows"], one["bytes"], one["bytes"] / max(1, one["rows"]), one["bytes_per_event"])
        for name, one in result["clickhouse"].items()
    ]
    out.print(table("ClickHouse", ("table", "rows", "bytes", "bytes/row", "bytes/source event"), tables))
    memory = result["job_memory"]
    out.print(
        f"job at {memory['series']:,} series: {memory['resident_bytes'] / 2**20:,.0f} MiB resident,"
        f" {memory['resident_peak_bytes'] / 2**20:,.0f} MiB at most,"
        f" {memory['start_bytes'] / 2**20:,.0f} MiB before the first",
        highlight=False,
    )


@app.command()
def landing(
    profile: Annotated[ProfileName, typer.Option(help="bulk: 500 events a record; fleet: 1,250 hosts.")],
    seconds: Annotated[int, typer.Option(min=3, max=120, help="Seconds of events; three to an insert.")] = 12,
    seed: Seed = 1,
    json: Json = False,
    results: Results = None,
    data_dir: DataDir = None,
) -> None:
    """What keeping raw events costs client and server, against JSONEachRow.

    Example: [bold]fleetpulse bench landing --profile fleet[/bold]
    """
    from fleetpulse.bench import landing as measuring
    from fleetpulse.bench.progress import Progress
    from fleetpulse.bench.stand import fresh_stand

    with Progress() as progress, fresh_stand(data_dir, progress.say) as place:
        result = measuring.measure(place, profile.value, seconds, seed, progress)
    name = f"landing-{profile.value}"
    finish(name, result, seed, json=json, results=results, show=lambda: _show_landing(result))


def _show_landing(result: dict[str, Any]) -> None:
    from fleetpulse.commands.output import table

    rows = [
        (topic, how, one[key].client_us, one[key].server_us, one["ratio"] if key == "native" else None)
        for topic, one in result["by_topic"].items()
        for key, how in (("native", "Native by the sink"), ("json_each_row", "JSONEachRow"))
    ]
    columns = ("topic", "how", "client us/event", "server us/event", "of JSONEachRow")
    out.print(table(f"Raw landing, {result['profile']}", columns, rows))
