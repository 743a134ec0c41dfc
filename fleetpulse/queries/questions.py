"""What people ask of a fleet, and the shipped query that answers each: no SQL of its own. Pure.

A question names a query of the catalogue, or one of the dashboard's as ``dashboard/NAME``, with the values of its
parameters; the range is the asker's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fleetpulse import queries
from fleetpulse.queries import dashboard, scope
from fleetpulse.queries.range_words import TODAY

OF_DASHBOARD = "dashboard/"
_EVERYTHING: Mapping[str, str] = {
    **dict.fromkeys(("cluster", "region", "model", "tenant", "host", "gpu_model", "engine_id", "status", "search"), ""),
    "top": "50",
}
"""Filters of the dashboard's queries, as they are where nobody filters."""


@dataclass(frozen=True, slots=True)
class Question:
    """``last``: over which range it is asked, ``today`` from midnight on. ``against``: how far back that is compared,
    empty for the stretch just before. ``words``: what people call it otherwise. ``all_of``: names that it is not held
    to, since it tells them apart. ``of_now``: it is about the end of its range, so that a day or a part of one means
    another question, if any other. ``alone``: words that mean it where nothing else is asked."""

    text: str
    query: str
    given: Mapping[str, str] = field(default_factory=dict)
    last: str = "1h"
    against: str = ""
    words: str = ""
    all_of: tuple[str, ...] = ()
    of_now: bool = False
    alone: tuple[str, ...] = ()

    def sql(self, span_ms: int, bounds: Mapping[str, int] | None = None, kept: tuple[int, int] = (0, 0)) -> str:
        """The query for a range of this length, its parameters as places; with its bounds, for that range alone and
        without tables that have nothing of it. ``kept``: where the range begins, and since when rows of 10 s are kept
        [ms]."""
        if self.query.startswith(OF_DASHBOARD):
            return dashboard.query(self.query.removeprefix(OF_DASHBOARD)).kept(*kept).at_levels(span_ms, bounds)
        return queries.text(self.query)

    def known(self) -> dict[str, str]:
        """Values of parameters other than the range."""
        return {**(_EVERYTHING if self.query.startswith(OF_DASHBOARD) else {}), **self.given}

    def takes(self, names: Iterable[str]) -> bool:
        """Whether it can be asked of one model, tenant, host ... alone: by names of ``scope.NAMES``."""
        wanted = list(names)
        return not {*wanted} & {*self.all_of} and scope.takes(self.sql(0), wanted)


_CHANGED, _TTFT_P99 = "who_changed", {"metric": "ttft_p99_us"}

QUESTIONS: Mapping[str, Sequence[Question]] = {
    "On call": (
        Question("Which tenant is behind the p99 spike of a model?", "who_slowed_model",
                 {"model": "", "bins": "ttft_us_bins", "quantile": "0.99"}, "1h", all_of=("tenant",),
                 words="p95 e2e tpot fault got became made sudden rise rose up went increase slow latency ttft time "
                 "first token culprit caused explains regression worse jump jumped responsible customer"),
        Question("Which host, engine, model version or tenant is behind a p99 spike?", _CHANGED, _TTFT_P99, "10m",
                 words="fault broke made sudden rise rose up went increase slow latency ttft time first token culprit "
                 "caused explains regression worse jump jumped"),
        Question("Which requests were the slowest, on which GPUs, and where did their time go?", "slowest_requests",
                 words="longest waiting calls slow latency queue prefill generation trace tail"),
        Question("How slow is each model, at the median and in the tail?", "percentiles_by_model",
                 words="median first token latency ttft tpot e2e p50 p95 p99 percentile quantile response time",
                 alone=("latency",)),
        Question("Which hosts are the slowest?", "slowest_hosts",
                 words="machine node latency tail p99"),
        Question("Which alerts are open?", "open_alerts", last="7d", of_now=True,
                 words="active alarms anything current problems firing incident problem wrong now broken throttled"),
        Question("Which alerts were there, and for how long?", "alert_history", last="1d",
                 words="alarms yesterday incident fired resolved night anything breakage broke happened wrong"),
        Question("Why do requests fail, with which errors, and where?", "errors_by_kind",
                 words="timeouts error failure kind oom timeout reason"),
        Question("Who explains a change of failures?", _CHANGED, {"metric": "failed"}, "1h",
                 words="sudden jump grew rise up went increase who behind more error spike tenant model host engine "
                 "culprit"),
        Question("Whom did each GPU fault hit?", "requests_of_gpu_fault",
                 last="1d",
                 words="xid lost dead impact tenants crash"),
        Question("What was deployed or marked, and when?", "dashboard/deployments", last="7d",
                 words="new versions deployments releases deploys rolled deployment version rollout release change"),
    ),
    "Platform": (
        Question("How many requests and tokens does each model take, a second, and how many fail?",
                 "throughput_by_model",
                 words="throughput rate rps tps traffic load error share count number total",
                 alone=("request", "token", "request token", "request model", "token model")),
        Question("How do requests of today compare with yesterday, by model and tenant?", _CHANGED,
                 {"metric": "requests"}, TODAY, "1d", "traffic growth day change more less against versus"),
        Question("How busy, how hot and how hungry is each type of GPU?", "gpu_summary",
                 words="up compared number utilisation utilization power temperature memory energy fleet",
                 alone=("gpu",)),
        Question("Which engines are full, and which have a queue?", "dashboard/engines",
                 words="batch running waiting kv cache capacity saturated concurrency"),
        Question("Which GPUs have links with errors or too few lanes?", "gpu_links", last="1d",
                 words="problems pcie nvlink replay width degraded"),
        Question("How are the hosts: processors, memory, disks, network?", "host_summary",
                 words="machines doing cpu load machine node"),
        Question("Which processes hold an engine up on the host?", "engine_processes",
                 words="processes cpu process thread tokenizer starved bound"),
        Question("How do training jobs go, and how uneven are their ranks?", "dashboard/training",
                 words="step loss samples straggler checkpoint"),
        Question("What does another power limit save, and what does it cost in speed?", "cost_power_cap", last="7d",
                 words="capping effect watt cap energy efficiency joule token"),
        Question("What share of requests met its objectives, by service class?", "cost_goodput_windows", last="1d",
                 words="attainment goodput slo good objective class missed"),
    ),
    "Finance": (
        Question("What do idle GPUs cost, with their hosts and energy, in this range and in a month?", "idle_gpus",
                 last="30d", words="monthly waste wasted unused spend money empty nothing doing cards kind type model"),
        Question("What was the bill?", "cost_bill", last="1d",
                 words="spent pay paid spend money total cost invoice dollars price"),
        Question("What was the bill spent on?", "cost_split",
                 last="1d",
                 words="breakdown spend where goes money waste start idle failed parts split"),
        Question("What does each tenant cost, and what of it failed?", "cost_by", {"dimension": "tenant"}, "1d",
                 words="chargeback showback customer team spend money"),
        Question("What does each model cost, and what do its tokens?", "cost_by", {"dimension": "model"}, "1d",
                 words="spend money million token unit price"),
        Question("What did each engine cost, and what of it was waiting?", "cost_by_engine", last="1d",
                 words="spend money unused start"),
        Question("What does each type of GPU cost, and what is computed on it?", "cost_by_gpu_model", last="1d",
                 words="spend money hours type"),
        Question("What did requests cost that did not end well?", "cost_failed",
                 last="1d",
                 words="failures failing failed aborted waste money"),
        Question("Who explains a change of cost?", _CHANGED, {"metric": "cost_nusd"}, "1d",
                 words="grew rise up went increase drives behind higher why spend money tenant model engine more "
                 "expensive overrun growth"),
        Question("What GPU time and energy does a request of each tenant take?", "request_cost_gpu", last="1d",
                 words="hours energy joule sustainability"),
        Question("How much energy and CO2 does each place account for?", "cost_energy_by_place", last="1d",
                 words="carbon emission region kwh sustainability green"),
    ),
    "New here": (
        Question("How many tokens did each model and tenant take and generate today, against yesterday?",
                 "tokens_changed", {"model": "", "tenant": ""}, TODAY, "1d",
                 all_of=("host", "engine_id", "model_version"),
                 words="usage day change growth versus compare input output prompt generated cached completion"),
        Question("Which tenants are there, and what do they send?", "dashboard/tenants", last="1d",
                 words="heaviest users heavy top customers list customer usage biggest largest tokens error failure "
                 "rate share number request", alone=("request tenant",)),
        Question("How much of a range has data?", "dashboard/covered",
                 last="1d",
                 words="coverage gap missing complete"),
        Question("How fresh is the data?", "dashboard/pipeline_freshness",
                 words="old age stale delayed event newest delay lag behind late"),
        Question("Is everything accounted for, and what was rejected or late?", "dashboard/pipeline_topics", last="1d",
                 words="events lost duplicated data duplicates books loss duplicate accepted verdict"),
        Question("What did people do that changes stored results?", "actions", last="30d",
                 words="silence audit rerate action done"),
        Question("Which requests did each GPU fault lose, one by one?", "requests_lost", {"model": "", "tenant": ""},
                 "1d",
                 words="xid request ids id list lost failed crash dead hit which"),
        Question("Where do GPUs starve while requests wait, since one core is saturated?", "starved_gpus", last="1d",
                 words="starved starves starving idle engine host cpu bottleneck bound"),
    ),
}  # fmt: skip
"""By who asks most. New ones are the last: numbers stay."""


def numbered() -> dict[int, Question]:
    """All questions by their number in the list."""
    return dict(enumerate((one for group in QUESTIONS.values() for one in group), 1))
