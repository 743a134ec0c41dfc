"""``fleetpulse bench``: a command for each measurement of the whole pipeline; ``command_parts`` has those of parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fleetpulse.commands.progress import Progress
from lab.bench import command_parts
from lab.bench.measurement import DataDir, Keep, Measured, measurement
from schemas.errors import ConfigError

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Measure speed, size and latency on this machine, each beside its yardstick.\n\n"
    "Example: [bold]fleetpulse bench throughput --profile fleet --against clickhouse[/bold]",
)


Format = Literal["native", "columns", "ndjson"]
Against = Literal["clickhouse"]
Shell = Literal["bare", "faust", "both"]
Profile = Annotated[Literal["bulk", "fleet"], typer.Option(help="bulk: 500 events a record; fleet: 1,250 hosts.")]


def throughput(
    progress: Progress,
    seed: int,
    profile: Profile,
    format: Annotated[Format, typer.Option(help="How the events are written.")] = "native",
    against: Annotated[
        Against | None, typer.Option(help="Also measure ClickHouse's own Kafka engine on the same topics.")
    ] = None,
    shell: Annotated[Shell, typer.Option(help="What runs the job.")] = "faust",
    seconds: Annotated[int | None, typer.Option(min=2, max=3_600, help="Seconds of event time to write.")] = None,
    records_per_batch: Annotated[
        int, typer.Option(min=1, max=1_000, help="Records in a Kafka batch: 1 is many senders, 100 one big one.")
    ] = 1,
    times: Annotated[int, typer.Option(min=1, max=20, help="How often each side runs; medians count.")] = 3,
    cprofile: Annotated[
        Path | None, typer.Option("--cprofile", help="Write the job's cProfile here (it slows the job down).")
    ] = None,
    whole_path: Annotated[
        bool, typer.Option("--whole-path", help="Job + sink + server against the engine, both keeping raw rows.")
    ] = False,
    keep: Keep = False,
    data_dir: DataDir = None,
) -> Measured:
    """CPU per event of the windows job, emission included, pinned to one core, in ratio to its yardsticks.

    Example: [bold]fleetpulse bench throughput --profile fleet --against clickhouse --shell both[/bold]
    """
    from lab.bench import throughput as measuring
    from lab.bench.stand import fresh_stand, stand

    if whole_path:
        from lab.bench import whole_path as measuring_whole

        with fresh_stand(data_dir, progress.say) as place:
            found = measuring_whole.measure(place, profile, seconds, records_per_batch, seed, progress)
        return _whole(found)
    options = measuring.Options(
        profile=profile,
        format=format,
        against=against,
        shells=("bare", "faust") if shell == "both" else (shell,),
        seconds=seconds,
        records_per_batch=records_per_batch,
        times=times,
        seed=seed,
        cprofile=cprofile,
    )
    with stand(data_dir, progress.say, keep=keep) as place:
        return _throughput(measuring.measure(place, options, progress))


def _whole(result: dict[str, Any]) -> Measured:
    name, events, ours = result["profile"].name, result["events"], result["ours"]
    rows: list[tuple[Any, ...]] = [
        (f"ours: {part}", 1e6 * spent / events, None) for part, spent in ours["side"].cpu_s.items()
    ]
    rows.append(("ours, all", ours["us_per_event"], None))
    rows += [
        (f"ClickHouse's Kafka engine, {work} work", one["us_per_event"], result["ratio"][work])
        for work, one in result["clickhouse"].items()
    ]
    title = f"Whole path, raw rows kept: {name}, {events:,} events, one core"
    return Measured(f"whole-path-{name}", result, [(title, ("what", "CPU us/event", "x ours"), rows)])


def _throughput(result: dict[str, Any]) -> Measured:
    rows: list[tuple[Any, ...]] = [("orjson.loads of columnar JSON", result["orjson_us_per_event"], None, None)]
    rows += [
        (f"ClickHouse Kafka engine, {work} work", us, None, None)
        for work, us in result["clickhouse_us_per_event"].items()
    ]
    for shell, us in result["job_us_per_event"].items():
        ratios = result["ratio_to_clickhouse"][shell]
        rows.append((f"windows job, {shell}", us, result["ratio_to_orjson"][shell], ratios.get("same")))
    lines = [
        f"{one.grouping}: equal in {one.windows_and_series:,} (window, series), {one.values_compared:,} values;"
        f" {one.quantiles_compared:,} quantiles within {one.quantile_error_max:.2%}"
        for one in result["compared_equal"]
    ]
    if result["faust_to_bare"] is not None:
        lines.append(f"The Faust shell runs at {result['faust_to_bare']:.2f} x the bare loop")
    profile, format = result["profile"].name, result["format"]
    title = f"{profile}, {format}, {result['events']:,} events, one core"
    tables = [(title, ("what", "CPU us/event", "x orjson", "x ClickHouse"), rows)]
    return Measured(f"throughput-{profile}-{format}", result, tables, lines)


def live(
    progress: Progress,
    seed: int,
    hosts: Annotated[int, typer.Option(min=8, max=5_000, help="Hosts of eight GPUs each.")] = 1_250,
    seconds: Annotated[int, typer.Option(min=15, max=3_600, help="How long the fleet sends.")] = 60,
    search: Annotated[bool, typer.Option("--search", help="When that many do not keep up, find how many do.")] = False,
    data_dir: DataDir = None,
) -> Measured:
    """A whole fleet in real time on this machine, raw tables and all: lag, exact books, CPU by process.

    Example: [bold]fleetpulse bench live --hosts 1250 --seconds 60 --search[/bold]
    """
    from lab.bench import live as measuring

    if search:
        tried = measuring.search(data_dir, hosts, seconds, seed, progress)
    else:
        tried = [measuring.verdict(measuring.measure(data_dir, hosts, seconds, seed, progress))]
    largest = max((one["gpus"] for one in tried if one["keeps_up"]), default=None)
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
        for one in tried
    ]
    last = tried[-1]
    shares = [(name, share, last["memory_peak_bytes"].get(name)) for name, share in last["cores"].items()]
    lines = [f"differences: {last['books']['differences'][:5]}"] if last["books"]["differences"] else []
    if last["services_ended"]:
        lines.append(f"ended, which no service should: {', '.join(last['services_ended'])}")
    if not last["derived_read"]:
        lines.append(f"behind with derived records, s: {last['derived_lag_s']}")
    return Measured(
        "live",
        {"largest_fleet_gpus": largest, "tried": tried},
        [
            ("Live fleets", columns, rows),
            (f"CPU at {last['gpus']:,} GPUs", ("process", "cores", "memory peak bytes"), shares),
        ],
        lines,
        {"does not keep up": [] if largest else [f"{one['gpus']:,} GPUs" for one in tried]},
    )


def freshness(
    progress: Progress,
    seed: int,
    hosts: Annotated[int, typer.Option(min=1, max=5_000, help="Hosts of eight GPUs each.")] = 312,
    seconds: Annotated[int, typer.Option(min=40, max=3_600, help="How long the fleet sends.")] = 120,
    data_dir: DataDir = None,
) -> Measured:
    """From a window's end until all its rows answer to SQL, all jobs running, at a quarter of the full load.

    Exit 1 where the books are not exact in the end.

    Example: [bold]fleetpulse bench freshness --hosts 312 --seconds 120[/bold]
    """
    from lab.bench import freshness as measuring

    result = measuring.measure(data_dir, hosts, seconds, seed, progress)
    rows = [(name, one["windows"], one["p50_s"], one["max_s"]) for name, one in result["by_grouping"].items()]
    rows.append(("all", result["windows"], result["p50_s"], result["max_s"]))
    title = f"End of a window to complete in SQL, {result['gpus']:,} GPUs"
    books, lines = result["books"], [f"queried every {result['queried_every_s']} s"]
    lines += [f"differences: {books['differences'][:5]}"] if books["differences"] else []
    compared = f"{books['checks']:,} comparisons, {len(books['differences'])} differences"
    tables = [(title, ("grouping set", "windows", "p50 s", "max s"), rows)]
    return Measured("freshness", result, tables, lines, {"books are not exact": [] if books["exact"] else [compared]})


def lifecycle(
    progress: Progress,
    seed: int,
    times: Annotated[int, typer.Option(min=1, max=50, help="How often each is tried.")] = 3,
    shell: Annotated[Shell, typer.Option(help="What runs the job (both is not possible here).")] = "faust",
    data_dir: DataDir = None,
) -> Measured:
    """How long a job takes to its first record, from SIGTERM to its end, and from kill -9 to its successor's commit.

    Example: [bold]fleetpulse bench lifecycle --times 5[/bold]
    """
    from lab.bench import lifecycle as measuring

    if shell == "both":
        raise ConfigError("--shell", shell, "must be bare or faust")
    result = measuring.measure(data_dir, times, shell, seed, progress)
    rows = [(text, min(result[name]), result["max"][name]) for name, text in measuring.MEASURED.items()]
    title = f"Life of a job, {result['shell']}"
    return Measured(f"lifecycle-{shell}", result, [(title, ("what", "least s", "most s"), rows)])


def size(
    progress: Progress,
    seed: int,
    hosts: Annotated[int, typer.Option(min=1, max=2_000, help="Hosts of eight GPUs each.")] = 64,
    seconds: Annotated[int, typer.Option(min=15, max=3_600, help="How long the fleet sends.")] = 45,
    data_dir: DataDir = None,
) -> Measured:
    """Bytes per event in Kafka and in every table of ClickHouse; memory of the job at 100,000 series.

    Example: [bold]fleetpulse bench size --hosts 64[/bold]
    """
    from lab.bench import size as measuring

    result = measuring.measure(data_dir, hosts, seconds, seed, progress)
    wire, memory = result["value_bytes_per_event"], result["job_memory"]
    sources = [
        (topic, count, wire[topic], result["kafka_bytes_per_event"][topic]) for topic, count in result["events"].items()
    ]
    derived = [(name, share) for name, share in result["kafka_derived_bytes_per_event"].items()]
    tables = [
        (name, one["rows"], one["bytes"], one["bytes"] / max(1, one["rows"]), one["bytes_per_event"])
        for name, one in result["clickhouse"].items()
    ]
    return Measured(
        "size",
        result,
        [
            ("Source topics", ("topic", "events", "value bytes/event", "in Kafka bytes/event"), sources),
            ("Derived topics, per source event", ("topic", "in Kafka bytes/event"), derived),
            ("ClickHouse", ("table", "rows", "bytes", "bytes/row", "bytes/source event"), tables),
        ],
        [
            f"job at {memory['series']:,} series: {memory['resident_bytes'] / 2**20:,.0f} MiB resident,"
            f" {memory['resident_peak_bytes'] / 2**20:,.0f} MiB at most,"
            f" {memory['start_bytes'] / 2**20:,.0f} MiB before the first"
        ],
    )


def landing(
    progress: Progress,
    seed: int,
    profile: Profile,
    seconds: Annotated[int, typer.Option(min=3, max=120, help="Seconds of events; three to an insert.")] = 12,
    data_dir: DataDir = None,
) -> Measured:
    """What keeping raw events costs client and server, against JSONEachRow.

    Example: [bold]fleetpulse bench landing --profile fleet[/bold]
    """
    from lab.bench import landing as measuring
    from lab.bench.stand import fresh_stand

    with fresh_stand(data_dir, progress.say) as place:
        result = measuring.measure(place, profile, seconds, seed, progress)
    rows = [
        (topic, how, one[key].client_us, one[key].server_us, one["ratio"] if key == "native" else None)
        for topic, one in result["by_topic"].items()
        for key, how in (("native", "Native by the sink"), ("json_each_row", "JSONEachRow"))
    ]
    columns = ("topic", "how", "client us/event", "server us/event", "of JSONEachRow")
    return Measured(f"landing-{profile}", result, [(f"Raw landing, {result['profile']}", columns, rows)])


def scale(
    progress: Progress,
    seed: int,
    gpus: Annotated[int, typer.Option(min=8, max=100_000, help="GPUs of the fleet, eight a host.")] = 10_000,
    minutes: Annotated[float, typer.Option(min=1, max=120, help="How long each layout runs.")] = 35.0,
    workers_max: Annotated[int, typer.Option(min=1, max=16, help="Leave out layouts of more workers.")] = 16,
    data_dir: DataDir = None,
) -> Measured:
    """The same load with 1, 4 and 16 workers and ever more partitions, all jobs and the sink, on two cores.

    Example: [bold]fleetpulse bench scale --gpus 1000 --minutes 2 --workers-max 4[/bold]
    """
    from lab.bench import scale as measuring

    result = measuring.measure(data_dir, gpus, minutes, seed, workers_max, progress)
    columns = (
        "workers", "sources", "partials", "CPU s/1e6 events", "of jobs", "growth", "records/s", "markers/s",
        "finals p99 s", "load late s",
    )  # fmt: skip
    rows = [
        (
            *(getattr(one["layout"], name) for name in ("workers", "sources", "partials")),
            one["cpu_s_per_million"],
            one["cpu_s_per_million_of_jobs"],
            one["growth"],
            one["records_per_s"],
            one["markers_per_s"],
            one["finals_p99_s"],
            one["load_late_s_max"],
        )
        for one in result["runs"]
    ]
    title = f"{result['gpus']:,} GPUs for {result['minutes']:g} min on {result['cores_used']} cores"
    wrong = {} if result["within"] else {"an event costs more by over a tenth": ["see growth"]}
    return Measured("scale", result, [(title, columns, rows)], wrong=wrong)


for one in (throughput, live, freshness, lifecycle, size, landing, scale, *command_parts.COMMANDS):
    app.command()(measurement(one))
