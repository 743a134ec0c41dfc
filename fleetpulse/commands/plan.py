"""The command ``plan``: how many engines and GPUs a traffic takes, from a measured curve and an SLO."""

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
        rows = database.sql(found.sql, values, **found.settings()).records()
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
