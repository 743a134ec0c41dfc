"""The SQL cookbook as a face: each recipe's answer over a range, or why single rows cannot be held against it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.oracle.recount import SPREAD
from lab.oracle.said import OF_GPUS, RATES, Answers, Ask, Said, all_rows, asked, by, latencies, summed, times
from lab.oracle.value import Shown
from schemas.limits import HOUR_MS, MINUTE_MS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cookbook.md"
"""Of a checkout; an installed wheel has no recipes to ask."""
_RECENT = re.compile(r"\b(window|minute) >= now\(\) - INTERVAL \d+ \w+")
_RECENT_HOUR = "hour >= toStartOfHour(now() - INTERVAL 1 HOUR)"
_RECENT_MINUTES = "minute >= toStartOfHour(now() - INTERVAL 1 HOUR)"
_OF_VIEW = re.compile(
    r"from_ms = toUnixTimestamp64Milli\(now64\(\) - INTERVAL \d+ \w+\), to_ms = toUnixTimestamp64Milli\(now64\(\)\)"
)
_MODEL = "model=llama-3.1-8b-instruct"
"""What one recipe asks about."""
Rows = list[dict[str, Any]]
_Read = Callable[[Rows], Said]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How its rows are read. ``grain_ms``: it reads rows of this width, so that ranges of whole ones are compared;
    ``cut``: it shows the first rows, and all are asked for."""

    read: _Read
    grain_ms: int = 1
    cut: bool = False


def recipes(from_ms: int, to_ms: int) -> dict[str, str]:
    """SQL by question, with this range in place of the last minutes."""
    text = _RECENT.sub(rf"\1_ms >= {from_ms} AND \1_ms < {to_ms}", PAGE.read_text(encoding="utf-8"))
    hours = f"toUnixTimestamp(hour) * 1000 >= {from_ms} AND toUnixTimestamp(hour) * 1000 < {to_ms}"
    text = _OF_VIEW.sub(f"from_ms = {from_ms}, to_ms = {to_ms}", text.replace(_RECENT_HOUR, hours))
    text = text.replace(_RECENT_MINUTES, f"minute_ms >= {from_ms} AND minute_ms < {to_ms}")
    parts = [part for part in text.split("\n### ")[1:] if "```sql" in part]
    return {part.partition("\n")[0]: part.partition("```sql\n")[2].partition("```")[0] for part in parts}


def cookbook(ask: Ask, from_ms: int, to_ms: int) -> Said:
    """All recipes that single rows can be counted for."""
    found = Answers()
    for question, sql in recipes(from_ms, to_ms).items() if PAGE.is_file() else ():
        recipe = COUNTED.get(question)
        if recipe is not None and not from_ms % recipe.grain_ms and not to_ms % recipe.grain_ms:
            found.add(recipe.read(asked(ask, all_rows(sql) if recipe.cut else sql, {})))
    return found


def _name(shown: str) -> str | None:
    return None if shown == "(not reported)" else shown


def _slow(rows: Rows) -> Said:
    found = {key: value for key, value in latencies("model", rows, "ttft_p{}_ms").items() if key[0] != "ttft_counted"}
    return found | by("model", rows, ("requests",))


def _fast(rows: Rows) -> Said:
    found = {("fast_share", f"model={row['model']}"): times(row["under_500_ms_pct"], 0.01) for row in rows}
    return found | {("ttft_counted", f"model={row['model']}"): row["requests"] for row in rows}


def _burnt(rows: Rows) -> Said:
    return {
        ("failed_share", f"model={row['model']}"): times(row["burn_1h"], row["budget"])
        for row in rows
        if row["burn_1h"].value is not None
    }


def _good(rows: Rows) -> Said:
    found: Said = {}
    for metric in ("judged", "good", "good_tokens"):
        found |= summed(metric, "model", rows, metric)
    return found


def _gpus(rows: Rows) -> Said:
    scaled = [
        row | {"power_mw": times(row["mean_power_w"], 1e3), "gpu_energy_mj": times(row["energy_kwh"], 3.6e9)}
        for row in rows
    ]
    return by("gpu_model", scaled, OF_GPUS)


def _nusd(rows: Rows) -> Shown:
    """Of dollars that are each rounded; what has no price is not there."""
    priced = [row["usd"] for row in rows if row["usd"].value is not None]
    return times(Shown(sum(one.value for one in priced), sum(one.half for one in priced)), 1e9)


def _split(rows: Rows) -> Said:
    parts = {row["part"] for row in rows if row["usd"].value is not None}
    found: Said = {}
    for part in parts:
        key = ("unobserved_nusd", "all") if part == "__unobserved__" else ("cost_nusd", f"part={part}")
        found[key] = _nusd([row for row in rows if row["part"] == part])
    return found


def _listed(dimension: str, column: str, more: _Read) -> _Read:
    return lambda rows: (
        more(rows)
        | {
            ("listed_cost_nusd", f"{dimension}={_name(row[column])}"): times(row["usd"], 1e9)
            for row in rows
            if row["usd"].value is not None
        }
    )


def _bill(rows: Rows) -> Said:
    (row,) = rows
    if not row["parts_nusd"]:
        return {}
    names = ("unpriced", "estimated")
    found: Said = {(f"bill_{name}_gpu_ms", "all"): times(row[f"{name}_gpu_hours"], 3.6e6) for name in names}
    found |= {("provisional_bills", "all"): row["provisional_bills"], ("difference", "all"): row["difference_nusd"]}
    return found | {("cost_nusd", "all"): row["parts_nusd"]}


def _elsewhere(rows: Rows) -> Said:
    return {("cost_nusd", "all"): sum(row["nusd"] or 0 for row in rows)} if rows else {}


def _slowest(rows: Rows) -> Said:
    return {("ttft_us_max", "all"): times(rows[0]["ttft_ms"], 1_000)} if rows else {}


def _largest(rows: Rows) -> Said:
    return {("tokens", "all"): sum(row["tokens"] or 0 for row in rows)} if rows else {}


def _cached(rows: Rows) -> Said:
    return {("cache_hit_share", f"model={row['model']}"): times(row["cache_hit_pct"], 0.01) for row in rows}


def _idle_hosts(rows: Rows) -> Said:
    found: Said = {}
    for row in rows:
        silent = row["idle_host"] == "__unobserved__"
        of = "all" if silent else f"host={row['idle_host']}"
        hours, money = ("silent_gpu_ms", "unobserved_nusd") if silent else ("idle_host_gpu_ms", "idle_host_nusd")
        found |= {(hours, of): times(row["gpu_hours"], 3.6e6), (money, of): times(row["usd"], 1e9)}
    return found


def _distribution(rows: Rows) -> Said:
    """All percentiles as one list."""
    return {
        (f"e2e_us_p{percent}", f"model={row['model']}"): Shown(1e3 * value, 1e3 * row["e2e_ms"].half)
        for row in rows
        for percent, value in zip(SPREAD, row["e2e_ms"].value or (), strict=False)
    }


def _named(of: str, key: Callable[[dict[str, Any]], object], columns: Mapping[str, tuple[str, float]]) -> _Read:
    """What rows say under metrics of other names, and by how much more."""
    return lambda rows: {
        (metric, f"{of}={key(row)}"): times(row[column], factor) if isinstance(row[column], Shown) else row[column]
        for row in rows
        for metric, (column, factor) in columns.items()
        if key(row) is not None and row[column] is not None
    }


def _coverage(rows: Rows) -> Said:
    (row,) = rows
    names = ("inventory", "reporting", "billed", "silent")
    found: Said = {(f"{name}_gpu_ms", "all"): times(row[f"{name}_hours"], 3.6e6) for name in names}
    return found | {("unobserved_nusd", "all"): times(row["unobserved_usd"], 1e9)}


def _beside(rows: Rows) -> Said:
    """Window by window, under the GPU that the recipe picks."""
    found: Said = {}
    for row in rows:
        of = f"{row['gpu_uuid']}={_ms(row['window'])}"
        found["beside_requests", of], found["beside_clock_mhz", of] = row["requests"], row["clock_mhz"]
        found["beside_throttled_pct", of] = row["throttled_pct"]
        found["beside_tpot_us_p95", of] = times(row["tpot_p95_ms"], 1e3)
    return found


def _ms(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1_000)


def _model(row: dict[str, Any]) -> object:
    return row["model"]


def _who(row: dict[str, Any]) -> object:
    return _name(row["who"])


def _engine(row: dict[str, Any]) -> object:
    return row["engine_id"]


COUNTED: Mapping[str, Recipe] = {
    "How slow is each model, at the median and in the tail?": Recipe(_slow),
    "What share of requests was faster than half a second?": Recipe(_fast),
    "How are latencies spread, as a histogram?": Recipe(
        lambda rows: {("ttft_counted", "all"): sum(row["requests"] for row in rows)} if rows else {}
    ),
    "Where did the time of the slowest requests go, and on which GPUs?": Recipe(_slowest),
    "How many requests and tokens does each model take and give, per second?": Recipe(
        lambda rows: by("model", rows, (*RATES, "input_tokens_per_s")) | _cached(rows)
    ),
    "Who fails, how, and how much of the traffic is that?": Recipe(
        lambda rows: summed("not_ok", "model", rows), cut=True
    ),
    "What share of requests was good over weeks, by model?": Recipe(_good, MINUTE_MS, cut=True),
    "How fast is the error budget being burnt?": Recipe(_burnt),
    "Who are the largest tenants, and what do all others make together?": Recipe(_largest, MINUTE_MS),
    "How busy, how hot and how hungry is each type of GPU?": Recipe(_gpus),
    "What was the bill, and what was it spent on?": Recipe(_split),
    "What does each tenant cost?": Recipe(
        _listed("tenant", "who", _named("tenant", _who, {"nusd_per_request": ("usd_per_1000", 1e6)})), HOUR_MS
    ),
    "What does a million tokens cost?": Recipe(
        _listed(
            "model",
            "whose",
            _named(
                "model",
                lambda row: str(_name(row["whose"])),
                {"priced_uncached_tokens": ("uncached", 1), "priced_output_tokens": ("generated", 1)},
            ),
        ),
        HOUR_MS,
    ),
    "Which hosts stand idle, and for how much?": Recipe(_idle_hosts, cut=True),
    "What does the whole distribution look like, over a long range?": Recipe(_distribution, MINUTE_MS),
    "How smoothly do tokens come, per token and not per request?": Recipe(
        _named(
            "model",
            _model,
            {
                "gaps": ("gaps", 1),
                "itl_us_p50": ("itl_p50_ms", 1e3),
                "itl_us_p99": ("itl_p99_ms", 1e3),
                "tpot_us_p99": ("tpot_p99_ms", 1e3),
            },
        )
    ),
    "Which engines make the tail?": Recipe(
        _named(
            "engine",
            _engine,
            {"requests": ("requests", 1), "ttft_us_p99": ("ttft_p99_ms", 1e3), "queue_us_p99": ("queue_p99_ms", 1e3)},
        ),
        cut=True,
    ),
    "How does latency grow with the batch?": Recipe(
        _named(
            "model_at_once",
            lambda row: f"{row['model']} {row['at_once']}",
            {
                "ended": ("ended", 1),
                "ttft_us_p95": ("ttft_p95_ms", 1e3),
                "itl_us_p50": ("itl_p50_ms", 1e3),
                "e2e_us_p95": ("e2e_p95_ms", 1e3),
            },
        )
    ),
    "Which GPUs were throttled, for how much of their time?": Recipe(
        _named(
            "gpu",
            lambda row: row["gpu_uuid"],
            {
                "throttled_pct": ("throttled_pct", 1),
                "hottest_c": ("hottest_c", 1),
                "slowest_clock_mhz": ("slowest_clock_mhz", 1),
            },
        ),
        cut=True,
    ),
    "Which GPU of a tensor-parallel group drags the others?": Recipe(
        _named(
            "peer",
            lambda row: f"{row['engine_id']} {row['gpu_uuid']}",
            {name: (name, 1) for name in ("clock_mhz", "group_clock_mhz", "behind_pct")},
        ),
        cut=True,
    ),
    "Is a queue made by a full KV cache?": Recipe(
        _named(
            "engine",
            _engine,
            {
                "most_waiting": ("most_waiting", 1),
                "kv_most_ppm": ("kv_most_pct", 1e4),
                "preemptions": ("preempted", 1),
                "prefix_hit_pct": ("prefix_hit_pct", 1),
            },
        ),
        cut=True,
    ),
    "What did one GPU do while its engine's requests got slow?": Recipe(_beside),
    "How much GPU time and energy does a request of each tenant take?": Recipe(
        _named(
            "tenant",
            lambda row: "None" if row["who"] == "(nobody in particular)" else row["who"],
            {
                "billed_requests": ("requests", 1),
                "gpu_ms_per_request": ("gpu_ms_per_request", 1),
                "energy_mj_per_request": ("mj_per_request", 1),
            },
        )
    ),
    "What do a thousand requests cost, and a good one?": Recipe(
        _named(
            "model", _model, {"nusd_per_request": ("usd_per_1000", 1e6), "nusd_per_ok": ("usd_per_1000_served", 1e6)}
        )
    ),
    "How many GPUs report, and what do silent ones cost?": Recipe(_coverage),
    "What is the 99th percentile over a sliding minute?": Recipe(
        _named("window", lambda row: _ms(row["window"]), {"sliding_ttft_us_p99": ("ttft_p99_of_a_minute_ms", 1e3)})
    ),
    "Does the bill add up, and what of it has no price?": Recipe(_bill),
    "How do I get rows into pandas, DuckDB or a spreadsheet?": Recipe(_elsewhere),
    "How did the tail move, minute by minute?": Recipe(
        lambda rows: {("requests", _MODEL): sum(row["requests"] for row in rows)} if rows else {}, MINUTE_MS
    ),
}
"""By question, as its answer is read."""
