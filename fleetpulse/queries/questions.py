"""What people ask of a fleet, and the shipped query that answers each: no SQL of its own. Pure.

A question names a query of the catalogue, or one of the dashboard's as ``dashboard/NAME``, with the values of its
parameters; the range is the asker's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from fleetpulse import queries
from fleetpulse.queries import dashboard

OF_DASHBOARD = "dashboard/"
TODAY = "today"
_EVERYTHING: Mapping[str, str] = {
    **dict.fromkeys(("cluster", "region", "model", "tenant", "host", "gpu_model", "engine_id", "status", "search"), ""),
    "top": "50",
}
"""Filters of the dashboard's queries, as they are where nobody filters."""
_WORD = re.compile(r"[a-z0-9]+")
_SMALL = frozenset(
    _WORD.findall(
        "a an and are as at by did do does each for from had has have how i in is it much many of on or our s t than"
        " over that the their them they this to was we were what when which who whom whose why with you your me my show"
    )
)
_STEM = 4
"""Words are alike from so many letters on: *tenants* and *tenant*, *failed* and *failures*."""


@dataclass(frozen=True, slots=True)
class Question:
    """``last``: over which range it is asked, ``today`` from midnight on. ``against``: how far back that is compared,
    empty for the stretch just before. ``words``: what people call it otherwise."""

    text: str
    query: str
    given: Mapping[str, str] = field(default_factory=dict)
    last: str = "1h"
    against: str = ""
    words: str = ""

    def sql(self, span_ms: int, bounds: Mapping[str, int] | None = None) -> str:
        """The query for a range of this length, its parameters as places; with its bounds, for that range alone and
        without tables that have nothing of it."""
        if self.query.startswith(OF_DASHBOARD):
            return dashboard.query(self.query.removeprefix(OF_DASHBOARD)).at_levels(span_ms, bounds)
        return queries.text(self.query)

    def known(self) -> dict[str, str]:
        """Values of parameters other than the range."""
        return {**(_EVERYTHING if self.query.startswith(OF_DASHBOARD) else {}), **self.given}


_CHANGED, _TTFT_P99 = "who_changed", {"metric": "ttft_p99_us"}

QUESTIONS: Mapping[str, Sequence[Question]] = {
    "On call": (
        Question("Which tenant is behind the p99 spike of a model?", "who_slowed_model", {"model": ""}, "10m",
                 words="slow latency ttft time first token culprit caused explains regression worse jump jumped"
                 " responsible customer"),
        Question("Which host, engine, model version or tenant is behind a p99 spike?", _CHANGED, _TTFT_P99, "10m",
                 words="slow latency ttft time first token culprit caused explains regression worse jump jumped"),
        Question("Which requests were the slowest, on which GPUs, and where did their time go?", "slowest_requests",
                 words="slow latency queue prefill generation trace tail"),
        Question("How slow is each model, at the median and in the tail?", "percentiles_by_model",
                 words="latency ttft tpot e2e p50 p95 p99 percentile quantile response time"),
        Question("Which hosts are the slowest?", "slowest_hosts", words="machine node latency tail p99"),
        Question("Which alerts are open?", "open_alerts", last="7d",
                 words="firing incident problem wrong now broken throttled"),
        Question("Which alerts were there, and for how long?", "alert_history", last="1d",
                 words="incident fired resolved night anything breakage broke happened wrong"),
        Question("Why do requests fail, and where?", "errors_by_kind", words="error failure kind oom timeout reason"),
        Question("Who explains a change of failures?", _CHANGED, {"metric": "failed"}, "1h",
                 words="error spike tenant model host engine culprit"),
        Question("Whom did each GPU fault hit?", "requests_of_gpu_fault",
                 last="1d", words="xid lost dead impact tenants crash"),
        Question("What was deployed or marked, and when?", "dashboard/deployments", last="7d",
                 words="deployment version rollout release change"),
    ),
    "Platform": (
        Question("How many requests and tokens does each model take, a second, and how many fail?",
                 "throughput_by_model",
                 words="throughput rate rps tps traffic load error share count"),
        Question("How do requests of today compare with yesterday, by model and tenant?", _CHANGED,
                 {"metric": "requests"}, TODAY, "1d", "traffic growth day change more less against versus"),
        Question("How busy, how hot and how hungry is each type of GPU?", "gpu_summary",
                 words="utilisation utilization power temperature memory energy fleet"),
        Question("Which engines are full, and which have a queue?", "dashboard/engines",
                 words="batch running waiting kv cache capacity saturated concurrency"),
        Question("Which GPUs have links with errors or too few lanes?", "gpu_links", last="1d",
                 words="pcie nvlink replay width degraded"),
        Question("How are the hosts: processors, memory, disks, network?", "host_summary",
                 words="cpu load machine node"),
        Question("Which processes hold an engine up on the host?", "engine_processes",
                 words="cpu process thread tokenizer starved bound"),
        Question("How do training jobs go, and how uneven are their ranks?", "dashboard/training",
                 words="step loss samples straggler checkpoint"),
        Question("What does another power limit save, and what does it cost in speed?", "cost_power_cap", last="7d",
                 words="watt cap energy efficiency joule token"),
        Question("What share of requests met its objectives, by service class?", "cost_goodput_windows", last="1d",
                 words="goodput slo good objective class missed"),
    ),
    "Finance": (
        Question("What do idle GPUs cost, in this range and in a month?", "idle_gpus", last="30d",
                 words="monthly waste wasted unused spend money empty"),
        Question("What was the bill?", "cost_bill", last="1d", words="spend money total cost invoice dollars price"),
        Question("What was the bill spent on?", "cost_split",
                 last="1d", words="money waste start idle failed parts split"),
        Question("What does each tenant cost, and what of it failed?", "cost_by", {"dimension": "tenant"}, "1d",
                 words="chargeback showback customer team spend money"),
        Question("What does each model cost, and what do its tokens?", "cost_by", {"dimension": "model"}, "1d",
                 words="spend money million token unit price"),
        Question("What did each engine cost, and what of it was waiting?", "cost_by_engine", last="1d",
                 words="spend money unused start"),
        Question("What does each type of GPU cost, and what is computed on it?", "cost_by_gpu_model", last="1d",
                 words="spend money h100 hours type"),
        Question("What did requests cost that did not end well?", "cost_failed",
                 last="1d", words="failed aborted waste money"),
        Question("Who explains a change of cost?", _CHANGED, {"metric": "cost_nusd"}, "1d",
                 words="spend money tenant model engine more expensive overrun growth"),
        Question("What GPU time and energy does a request of each tenant take?", "request_cost_gpu", last="1d",
                 words="energy joule sustainability"),
        Question("How much energy and CO2 does each place account for?", "cost_energy_by_place", last="1d",
                 words="carbon emission region kwh sustainability green"),
    ),
    "New here": (
        Question("How many tokens did each model and tenant generate today, against yesterday?", _CHANGED,
                 {"metric": "output_tokens"}, TODAY, "1d", "usage day change growth versus compare"),
        Question("Which tenants are there, and what do they send?", "dashboard/tenants", last="1d",
                 words="customer usage biggest largest tokens error failure rate share"),
        Question("How much of a range has data?", "dashboard/covered",
                 last="1d", words="coverage gap missing complete since"),
        Question("How fresh is the data?", "dashboard/pipeline_freshness", words="newest delay lag behind late"),
        Question("Is everything accounted for, and what was rejected or late?", "dashboard/pipeline_topics", last="1d",
                 words="books loss duplicate accepted verdict"),
        Question("What did people do that changes stored results?", "actions", last="30d",
                 words="silence audit rerate action done"),
    ),
}  # fmt: skip
"""By who asks most."""


def numbered() -> dict[int, Question]:
    """All questions by their number in the list."""
    return dict(enumerate((one for group in QUESTIONS.values() for one in group), 1))


def matching(words: Sequence[str]) -> list[int]:
    """Numbers of the questions that hold these words, the best first; rare words weigh more, those of the question
    itself most. Empty where none is found."""
    asked = [word for word in _words(" ".join(words)) if word not in _SMALL]
    texts = {number: (_words(one.text), _words(f"{one.words} {one.query}")) for number, one in numbered().items()}
    scores = dict.fromkeys(texts, 0.0)
    for word in asked:
        held = {
            number: 2 if _holds(own, word) else 1 if _holds(more, word) else 0 for number, (own, more) in texts.items()
        }
        found = sum(weight > 0 for weight in held.values())
        for number, weight in held.items():
            scores[number] += weight / found if found else 0
    best = max(scores.values(), default=0)
    return sorted(
        (number for number, score in scores.items() if score > best / 3), key=lambda number: (-scores[number], number)
    )


def near(words: Sequence[str]) -> list[str]:
    """Words of questions that those are nearly."""
    known = {word for one in numbered().values() for word in _words(f"{one.text} {one.words}")} - _SMALL
    return [close for word in words for close in get_close_matches(word.lower(), sorted(known), n=1)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _holds(words: Sequence[str], word: str) -> bool:
    return any(one == word or (min(len(one), len(word)) >= _STEM and _alike(one, word)) for one in words)


def _alike(one: str, other: str) -> bool:
    """Whether the shorter begins the longer, but for an ending of its own."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short[: max(_STEM, len(short) - 2)])
