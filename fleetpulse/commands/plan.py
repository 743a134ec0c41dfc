"""The commands ``plan`` (engines and GPUs for a traffic, from a measured curve and an SLO) and ``size`` (what the
pipeline takes for a fleet)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleetpulse.commands.output import Result, answers, err, print_rows
from fleetpulse.commands.people import Last, duration_ms
from runtime.clock import SystemClock
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from fleetpulse.baseline.curve import Curve
    from fleetpulse.plan.needs import Plan, Slo, Traffic
    from fleetpulse.plan.size import Size, Target

Ms = Annotated[float | None, typer.Option(min=0, help="Upper limit, milliseconds.")]


@answers
def plan(
    traffic: Annotated[float, typer.Option(min=0, help="Requests per second to carry, at the peak.")],
    curve: Annotated[Path | None, typer.Option(help="A file of `baseline`.", exists=True, dir_okay=False)] = None,
    model: Annotated[str | None, typer.Option(help="Instead of a file: live traffic of this model.")] = None,
    last: Last = "1d",
    input_tokens: Annotated[int | None, typer.Option(min=1, help="Of a request; without: as the curve has.")] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, help="Of an answer; without: as the curve has.")] = None,
    ttft_ms: Ms = None,
    itl_ms: Ms = None,
    e2e_ms: Ms = None,
    percentile: Annotated[Literal["p50", "p95", "p99"], typer.Option(help="Which the limits are for.")] = "p95",
    headroom: Annotated[float, typer.Option(min=0, max=99, help="Percent of capacity to keep free.")] = 20.0,
    gpus_per_engine: Annotated[int | None, typer.Option(min=1, help="Without: as the curve has.")] = None,
) -> Result:
    """Engines and GPUs that a traffic takes under an SLO; says what is measured, interpolated, scaled or assumed.

    Nothing beyond the curve is assumed: capacity is never above what was measured. Exit 1: the SLO cannot be kept.

    Example: [bold]fleetpulse plan --curve h100.json --traffic 40 --ttft-ms 500 --itl-ms 40[/bold]

    From live traffic: [bold]fleetpulse plan --model llama-3.1-8b-instruct --last 1d --traffic 40 --ttft-ms 500[/bold]
    """
    from fleetpulse.baseline.curve import curve_of
    from fleetpulse.plan.needs import Slo, Traffic
    from fleetpulse.plan.needs import plan as planned

    if (curve is None) == (model is None):
        raise ConfigError("--curve", None, "or --model is needed, and not both: a file of `baseline`, or live traffic")
    measured = _live(model, last) if model else curve_of(Path(curve or "").read_bytes(), str(curve))
    wanted = Traffic(traffic, input_tokens, output_tokens, headroom / 100)
    slo = Slo(_us(ttft_ms), _us(itl_ms), _us(e2e_ms), percentile)
    found = planned(measured, wanted, slo, gpus_per_engine)
    data = {"model": measured.setup.model, "gpu": measured.setup.gpu, **found.as_data()}
    sentence = "the SLO cannot be kept with this engine" if found.engines is None else False
    return Result(data, lambda: _show(measured, wanted, slo, found), wrong=sentence)


@answers
def size(
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the fleet.")],
    requests_per_s: Annotated[float, typer.Option(min=0, help="LLM requests a second, at the peak.")],
    cores: Annotated[int, typer.Option(min=1, help="Of a broker, and of a ClickHouse server.")] = 8,
    disk_gb: Annotated[int, typer.Option(min=1, help="Of a broker, and of a ClickHouse server.")] = 4_000,
) -> Result:
    """What a pipeline for a fleet takes: partitions, workers, brokers, shards, memory, disk, network.

    From costs that benches measured, with the machine and the day; says what is extrapolated and what is not known.

    Example: [bold]fleetpulse size --gpus 20000 --requests-per-s 50000[/bold]
    """
    from fleetpulse.plan.size import Costs, Target
    from fleetpulse.plan.size import size as sized
    from runtime.config import load

    target = Target(gpus, requests_per_s, cores, disk_gb * 10**9)
    found = sized(Costs.load(), target, load().limits)
    return Result(found.as_data(), lambda: _show_size(target, found))


def _show_size(target: Target, found: Size) -> None:
    rows: list[tuple[str, str, str]] = [("events a second", "", f"{found.events_per_s:,.0f}")]
    rows += [("partitions", topic, f"{count:,}") for topic, count in found.partitions.items()]
    rows += [("workers", name, "not measured" if n is None else f"{n:,}") for name, n in found.workers.items()]
    rows += [("cores", name, "not measured" if n is None else f"{n:,.2f}") for name, n in found.cores.items()]
    rows += [("brokers", f"{target.cores} cores each", f"{found.brokers:,}")]
    rows += [("ClickHouse shards", f"{target.cores} cores each", f"{found.shards:,}")]
    rows += [("memory of a process", name, f"{one / 1e9:,.2f} GB") for name, one in found.memory_bytes.items()]
    rows += [("disk", name, f"{one / 1e12:,.3f} TB") for name, one in found.disk_bytes.items()]
    rows += [("network", name, f"{one / 1e6:,.1f} MB/s") for name, one in found.network_bytes_per_s.items()]
    title = f"{target.gpus:,} GPUs, {target.requests_per_s:,.0f} requests/s: {found.basis}"
    print_rows(title, ("", "of", ""), rows, empty="nothing")
    for note in found.notes:
        err.print(note, markup=False, highlight=False)


def _live(model: str, last: str) -> Curve:
    """The curve of what a model's engines served."""
    from fleetpulse.baseline.curve import Setup
    from fleetpulse.plan.windows import curve_of_windows
    from fleetpulse.queries.dashboard import STANDARD, Value, query
    from fleetpulse.sql.database import Database
    from runtime.config import load

    span_ms, now_ms, found = duration_ms(last), SystemClock().now_ms(), query("latency_by_concurrency")
    given: dict[str, Value] = {**dict.fromkeys(STANDARD, ""), "model": model, "grain_ms": found.grain_ms(span_ms)}
    values = found.values(given | {"from_ms": max(0, now_ms - span_ms), "to_ms": now_ms}, span_ms)
    with closing(Database(load().reading)) as database:
        rows = database.sql(found.at_levels(span_ms, values), values, **found.settings()).records()
    return curve_of_windows(rows, Setup(model, origin="windows"))


def _us(value_ms: float | None) -> int | None:
    return None if value_ms is None else round(value_ms * 1_000)


def _show(curve: Curve, traffic: Traffic, slo: Slo, found: Plan) -> None:
    setup = curve.setup
    rows: list[tuple[str, str | float | int | None]] = [
        ("traffic, requests/s", traffic.requests_per_s),
        ("headroom, %", 100 * traffic.headroom),
    ]
    if found.capacity is not None:
        rows += [
            ("capacity of an engine, requests/s", found.capacity.requests_per_s),
            ("at concurrency", found.capacity.concurrency),
            ("basis", found.capacity.basis),
        ]
    rows += [("engines", found.engines), (f"GPUs ({setup.gpu or 'type not known'})", found.gpus)]
    rows.append(("each carries, requests/s", found.requests_per_s_per_engine))
    if found.expected is not None:
        for name in ("ttft_us", "itl_us", "e2e_us"):
            value = getattr(found.expected, name).get(slo.percentile)
            rows.append(
                (f"{name.removesuffix('_us').upper()} {slo.percentile}, ms, interpolated", value and value / 1_000)
            )
    print_rows(f"Plan for {setup.model}", ("", ""), rows, empty="nothing")
    for note in found.notes:
        err.print(note, markup=False, highlight=False)
