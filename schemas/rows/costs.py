"""Cost rows: a bill and all its parts in one row, so that they can never come from different revisions.

One row for each (use, owner, placement group, minute): what its GPUs cost (``why/costs.md``), which requests were at
work (*lines*) and who pays what (*parts*). Lines and parts are lists of equal length within a row, one list for each
of their columns. ``part_cost_nusd`` of a row add up to ``total_nusd``, ``part_energy_mj`` to ``energy_mj``,
``part_carbon_ug`` to ``carbon_ug``, ``part_gpu_ms`` to ``gpu_ms``. Money is whole nano-dollars; what is not known or
has no price is null.

Of the rows of a key the one with the greatest ``version`` counts: twice the ``revision`` (the source offset, in
``window.partials``, of the last change), plus one when final.
"""

from __future__ import annotations

from schemas.fields import Field, Kind, Role, Table

COST_KEY = ("use", "owner", "placement_group", "minute_ms")
"""What a bill is of; ``version`` orders the rows of one."""

USES = ("engine", "idle", "training")
PARTS = ("request", "__overhead__", "__wasted__", "__unattributed__", "__idle__", "__training__", "__unpriced__")
"""What a part of a bill is for; ``why/costs.md`` says each."""
KINDS = ("prefill", "decode", "kv", "startup", "held")
"""What a part was paid for: three of the work, start-up, and the GPU as such."""


def _number(name: str, unit: str, meaning: str, kind: Kind = Kind.INT64) -> Field:
    return Field(name, kind, Role.ATTRIBUTE, unit, meaning)


def _amount(name: str, unit: str, meaning: str) -> Field:
    return _number(name, unit, meaning, Kind.OPTIONAL_INT64)


def _count(name: str, meaning: str) -> Field:
    return _number(name, "", meaning, Kind.UINT64)


def _label(name: str, meaning: str) -> Field:
    return Field(name, Kind.LABEL, Role.DIMENSION, "", meaning)


def _numbers(name: str, unit: str, meaning: str) -> Field:
    return _number(name, unit, meaning, Kind.LIST_OPTIONAL_INT64)


def _labels(name: str, meaning: str) -> Field:
    return Field(name, Kind.LIST_LABEL, Role.ATTRIBUTE, "", meaning)


LINES = (
    _labels("line_tenant", "of each line who sent the request"),
    _labels("line_model", "of each line the model as served"),
    _labels("line_slo_class", "of each line the service class"),
    _labels("line_status", "of each line how its requests ended"),
    Field("line_requests", Kind.LIST_INT64, Role.ATTRIBUTE, "", "of each line requests that ended in this minute"),
    _numbers("line_prefill_tokens", "tokens", "of each line prompt tokens computed; null: not reported"),
    _numbers("line_cached_tokens", "tokens", "of each line prompt tokens from the prefix cache; null: not reported"),
    _numbers("line_decode_tokens", "tokens", "of each line generated tokens; null: not reported"),
    _numbers("line_kv_token_ms", "token-ms", "of each line tokens in the KV cache times how long; null: not reported"),
)
"""Usage of the minute by (tenant, model, class, status), sorted by these, null first."""

COST_PARTS = (
    _labels("part_name", f"what each part is for: {', '.join(PARTS)}"),
    _labels("part_kind", f"what each part was paid for: {', '.join(KINDS)}"),
    _labels("part_tenant", "whose each part is; null: nobody's in particular"),
    _labels("part_model", "model of each part"),
    _labels("part_slo_class", "service class of each part"),
    _labels("part_status", "how the requests of each part ended"),
    _numbers("part_amount", "tokens or token-ms", "units each part pays for; null where its kind has none"),
    _numbers("part_cost_nusd", "nUSD", "cost of each part; null: no price"),
    _numbers("part_energy_mj", "mJ", "energy of each part; null: not measured"),
    _numbers("part_carbon_ug", "ug", "CO2e of each part; null: not measured, or no intensity of the grid"),
    _numbers("part_gpu_ms", "ms", "GPU time of each part"),
)

COSTS = Table(
    "token_costs",
    "costs/1",
    "bills of engines, idle and training GPUs by minute, each with all its parts",
    (
        Field("minute_ms", Kind.INT64, Role.TIME, "ms", "start of the minute, event time, UTC"),
        _count("version", "of the rows of a bill the greatest counts"),
        _count("revision", "source offset of the last change in this bill"),
        _number("final", "", "1 once no request that ends in time can change it, else 0", Kind.UINT32),
        _number("weights_version", "", "version of the weights that parts were split by", Kind.UINT32),
        _number("definition_version", "", "version of the metric definitions", Kind.UINT32),
        _amount("total_nusd", "nUSD", "the bill: what is known of GPU, host and energy; null: nothing had a price"),
        _amount("gpu_nusd", "nUSD", "GPU time at its price; null: no price"),
        _amount("host_nusd", "nUSD", "overhead of the hosts; null: no price"),
        _amount("energy_nusd", "nUSD", "energy at tariff and PUE; null: no price or not measured"),
        _number("gpu_ms", "ms", "GPU time, estimated time included"),
        _amount("energy_mj", "mJ", "energy; null: not measured"),
        _amount("meter_mj", "mJ", "energy at the meter, with PUE; null: not measured, or no PUE"),
        _amount("carbon_ug", "ug", "CO2e of its energy with PUE; null: not measured, or no intensity of the grid"),
        _number("unpriced_gpu_ms", "ms", "GPU time without a price"),
        _number("unpriced_energy_mj", "mJ", "energy without a price"),
        _number("unmeasured_gpu_ms", "ms", "GPU time whose energy was not measured"),
        _number("estimated_gpu_ms", "ms", "GPU time billed for gaps between readings; above 0: the bill is estimated"),
        Field("use", Kind.LABEL, Role.DIMENSION, "", "what the GPUs are for", allowed=USES, required=True),
        _label("owner", "engine id; the host where no engine holds the GPU"),
        _label("placement_group", "engines that share any GPU; else the host"),
        _label("region", "region of its GPUs; null where they are of several"),
        _label("host", "host of its GPUs; null where they are on several"),
        _label("gpu_model", "product name of its GPUs; null where they are of several"),
        _label("prices_version", "version of the prices that it was billed with"),
        *LINES,
        *COST_PARTS,
    ),
)
