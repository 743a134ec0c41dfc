"""The command ``baseline``: walk concurrencies against an endpoint, store the curve, compare it with an earlier one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from fleetpulse.commands.output import Result, answers, err, print_rows
from fleetpulse.commands.progress import Progress
from runtime.clock import SystemClock
from schemas.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from fleetpulse.baseline.curve import Curve, Difference, Latency, Point, Setup
    from fleetpulse.baseline.run import Run

Earlier = Annotated[
    Path | None, typer.Option(help="An earlier curve; exit 1 where this one is worse.", exists=True, dir_okay=False)
]

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Keep the curve in this file.", dir_okay=False, writable=True)
]


@answers
def baseline(
    url: Annotated[str, typer.Argument(help="An OpenAI-compatible endpoint, such as http://127.0.0.1:8000.")],
    model: Annotated[str | None, typer.Option(help="The model to ask for; without it the only one served.")] = None,
    concurrency: Annotated[str, typer.Option(help="Requests at one time; a..b doubles from a to b.")] = "1..16",
    requests: Annotated[int, typer.Option(min=0, max=100_000, help="At each; 0: 4 a client, at least 16.")] = 0,
    prompt_tokens: Annotated[int, typer.Option(min=1, max=1_000_000, help="About so many in each prompt.")] = 512,
    output_tokens: Annotated[int, typer.Option(min=1, max=100_000, help="So many in each answer.")] = 128,
    api: Annotated[Literal["chat", "completions"], typer.Option(help="Which of its interfaces.")] = "chat",
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of the engine, kept with the curve.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Their type, kept with the curve.")] = None,
    file: Out = None,
    compare: Earlier = None,
    margin: Annotated[float, typer.Option(min=0, max=1_000, help="Percent worse that is still the same.")] = 15.0,
    seconds_max: Annotated[float, typer.Option(min=1, max=86_400, help="No new request of a step after.")] = 120.0,
    timeout: Annotated[float, typer.Option(min=1, max=86_400, help="Seconds before a request is cut.")] = 300.0,
    ignore_eos: Annotated[bool, typer.Option(help="Ask for answers of full length (vLLM, SGLang, llama.cpp).")] = True,
    api_key_env: Annotated[str, typer.Option(help="Environment variable with the key, if any.")] = "OPENAI_API_KEY",
) -> Result:
    """Measure an endpoint at each concurrency: TTFT, ITL, E2E and throughput; keep the curve, compare a later one.

    Example: [bold]fleetpulse baseline http://127.0.0.1:8000 --concurrency 1..64 --gpus 1 --gpu H100 -o h100.json[/bold]

    After a change: [bold]fleetpulse baseline http://127.0.0.1:8000 --concurrency 1..64 --compare h100.json[/bold]
    """
    from fleetpulse.baseline.curve import Setup, comparable, concurrencies, curve_of, differences
    from fleetpulse.baseline.run import Run

    steps = concurrencies(concurrency)
    if 0 < requests < max(steps):
        raise ConfigError("--requests", requests, f"at least {max(steps)}: so many are to be open at one time")
    if file is not None and (file.is_file() or not file.exists()) and not _can_hold(file.resolve().parent):
        raise ConfigError("--out", str(file), "cannot be made there: its folder is missing or cannot be written to")
    before = curve_of(compare.read_bytes(), str(compare)) if compare else None
    base, api_key = _base(url), os.environ.get(api_key_env) or None
    name, version = asyncio.run(_model(base, api_key, model))
    at = datetime.fromtimestamp(SystemClock().now_ms() / 1_000, UTC).isoformat(timespec="seconds")
    setup = Setup(name, base, at, version, gpu, gpus, prompt_tokens, output_tokens, api)
    if before is not None and (other := comparable(before.setup, setup)):
        raise ConfigError("--compare", str(compare), f"is of another experiment: {'; '.join(other)}")
    run = Run(
        base, name, api, prompt_tokens, output_tokens, requests, seconds_max, timeout, ignore_eos, api_key
    )  # fmt: skip
    curve = _measured(run, setup, steps)
    not_kept = _keep(curve, file) if file is not None else ""
    found = [] if before is None else differences(before, curve, margin / 100)
    return _result(curve, found, before, margin, not_kept)


def _can_hold(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError("URL", url, "must be http://host:port or https://host:port, without credentials")
    return url.rstrip("/").removesuffix("/v1")


async def _model(url: str, api_key: str | None, wanted: str | None) -> tuple[str, str | None]:
    """The model to ask for and the engine's version."""
    from fleetpulse.baseline.run import served

    said = await served(url, api_key)
    models: list[str] = said["models"]
    if wanted is None and len(models) != 1:
        served_here = ", ".join(models) or "names none"
        raise ConfigError("--model", wanted, f"is needed: {url}/v1/models {served_here}")
    return wanted or models[0], said["version"]


def _measured(run: Run, setup: Setup, steps: Sequence[int]) -> Curve:
    """The curve; ``UnavailableError`` where not even the request before it was answered."""
    from fleetpulse.baseline.curve import Curve
    from fleetpulse.baseline.run import Runner

    async def walk() -> tuple[Point, ...]:
        points = []
        async with Runner(run) as runner:
            with progress.task("one request to warm up"):
                first = await runner.warm_up()
            if first["status"] != "ok":
                said = ", ".join(str(first[key]) for key in ("status", "http_status", "error_kind") if first[key])
                raise UnavailableError(f"{run.url} did not answer a request for {run.model}: {said}")
            for number, concurrency in enumerate(steps, 1):
                with progress.task(f"concurrency {concurrency} ({number} of {len(steps)})") as report:
                    points.append(await runner.step(concurrency, report))
        return tuple(points)

    with Progress() as progress:
        return Curve(setup, asyncio.run(walk()))


def _keep(curve: Curve, file: Path) -> str:
    """Write the file; why it could not be written, since what took an hour to measure is to be shown all the same."""
    from fleetpulse.baseline.curve import text_of
    from fleetpulse.whole_file import replacing

    try:
        with replacing(file) as whole:
            whole.write(text_of(curve))
    except OSError as error:
        return f"the curve is not kept in {file}: {error.strerror}"
    return ""


def _result(
    curve: Curve, found: Sequence[Difference], before: Curve | None, margin: float, not_kept: str = ""
) -> Result:
    worse = [each for each in found if each.worse]
    data: dict[str, Any] = {**asdict(curve.setup), "points": [asdict(point) for point in curve.points]}
    if before is not None:
        data |= {"margin_pct": margin, "compared": [asdict(each) for each in found]}
    failed = sum(point.failed for point in curve.points)
    sentences = [not_kept]
    if worse:
        sentences.append(f"{len(worse)} numbers are worse by more than {margin:g} %")
    elif before is not None and not found:
        sentences.append("no concurrency is in both curves: nothing was compared")
    if failed:
        sentences.append(f"{failed} requests failed")
    sentence = "; ".join(filter(None, sentences))
    return Result(data, lambda: show_curve(curve, found, before, margin), wrong=sentence or False)


def show_curve(curve: Curve, found: Sequence[Difference], before: Curve | None, margin: float) -> None:
    """The curve as a table and, with one from before, what is worse by more than ``margin`` percent, and of
    what there are too few requests to say."""
    from fleetpulse.baseline.curve import JUDGED_MIN

    columns = ("at once", "requests", "failed", "requests/s", "output tokens/s", "TTFT p50, ms", "p95", "p99",
               "ITL p50, ms", "p95", "p99", "E2E p50, ms", "p95", "p99")  # fmt: skip
    rows = [
        (
            *(point.concurrency, point.requests, point.failed, point.requests_per_s, point.output_tokens_per_s),
            *_shown(point.ttft_us, point.requests - point.failed),
            *_shown(point.itl_us),
            *_shown(point.e2e_us, point.requests - point.failed),
        )
        for point in curve.points
    ]
    print_rows(f"{curve.setup.model} at {curve.setup.url}", columns, rows, empty="nothing was measured",
               least=("failed", "p99", "requests"))  # fmt: skip
    if before is None:
        return
    changed = [(each.concurrency, each.measure, each.before, each.after, 100 * each.change, "worse") for each in found
               if each.worse]  # fmt: skip
    title = f"Against the curve of {before.setup.at}, margin {margin:g} %"
    print_rows(
        title,
        ("at once", "measure", "before", "now", "change, %", ""),
        changed,
        empty=f"{sum(each.judged for each in found)} numbers compared, none worse by more than {margin:g} %",
    )
    missing = {point.concurrency for point in curve.points} - {point.concurrency for point in before.points}
    if missing:
        err.print(f"not in the earlier curve: concurrency {', '.join(map(str, sorted(missing)))}", highlight=False)
    few = {each.concurrency for each in found if not each.judged}
    if few:
        why = f"latencies of too few requests (p95 takes {JUDGED_MIN['p95']} in both curves: --requests)"
        err.print(f"not judged: {why}: concurrency {', '.join(map(str, sorted(few)))}", highlight=False)


def _shown(found: Latency, counted: int | None = None) -> list[float | str | None]:
    """Percentiles in milliseconds, ``few`` where they are of too few requests; gaps between tokens are many more."""
    from fleetpulse.baseline.curve import PERCENTILES
    from schemas.sketch import counted_min

    return [
        None
        if us is None
        else "few"
        if counted is not None and counted < counted_min(PERCENTILES[name])
        else us / 1_000
        for name, us in found.items()
    ]
