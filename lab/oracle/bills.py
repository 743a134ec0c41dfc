"""Bills, their parts and lines, counted one by one: money, energy, tokens. Plain loops, no SQL, no formula of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.oracle.groups import grouped
from lab.oracle.value import Key

Found = dict[Key, float]
WORK = ("prefill", "decode", "kv")
UNITS = (("usd", "cost_nusd", 1e9), ("kwh", "meter_mj", 3.6e9), ("g", "carbon_ug", 1e6))
MINUTE_MS, HOUR_MS, MONTH_MS = 60_000, 3_600_000, 30 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Bill:
    """One bill of a minute, without its parts and lines."""

    minute_ms: int
    use: str
    owner: str
    gpu_ms: int
    region: str = ""
    gpu_model: str = ""
    total_nusd: int | None = None
    gpu_nusd: int | None = None
    host_nusd: int | None = None
    energy_mj: int | None = None
    meter_mj: int | None = None
    carbon_ug: int | None = None
    unpriced_gpu_ms: int = 0
    estimated_gpu_ms: int = 0
    final: int = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a bill: of a minute, for requests that ended so, or for nobody in particular (no status)."""

    minute_ms: int
    part: str
    model: str
    tenant: str
    status: str | None
    cost_nusd: int | None
    energy_mj: int | None
    kind: str = ""
    amount: int | None = None
    meter_mj: int | None = None
    carbon_ug: int | None = None
    use: str = ""
    owner: str = ""
    gpu_model: str = ""
    gpu_ms: int = 0


def part_of(row: Mapping[str, Any]) -> Part:
    """A row of parts, with ``bill_energy_mj`` and ``bill_meter_mj`` of its bill: of what the meter read it has the
    share that it has of the energy, rounded down; unknown where any of the three is, or the bill has no energy."""
    fields = dict(row)
    energy_mj, whole_mj, meter_mj = row["energy_mj"], fields.pop("bill_energy_mj"), fields.pop("bill_meter_mj")
    known = energy_mj is not None and meter_mj is not None and whole_mj
    return Part(**fields, meter_mj=energy_mj * meter_mj // whole_mj if known else None)


@dataclass(frozen=True, slots=True)
class BillLine:
    """One line of a bill: requests of a kind that ended in the minute."""

    minute_ms: int
    model: str
    tenant: str
    gpu_model: str
    requests: int
    prefill_tokens: int | None = None
    cached_tokens: int | None = None
    decode_tokens: int | None = None
    has: tuple[str, ...] = ("usd", "kwh", "g")
    """Units of which its bill says what it came to."""
    status: str | None = "ok"


def money(bills: Sequence[Bill], parts: Sequence[Part], lines: Sequence[BillLine]) -> Found:
    """Everything that bills say of a range."""
    found = {**_of_bills(bills, lines), **_of_parts(parts), **_unused(parts), **_of_requests(parts, lines)}
    if (time_ms := billed_ms(bills)) and ("idle_nusd", "all") in found:
        found["idle_of_30_days_nusd", "all"] = MONTH_MS * (found["idle_nusd", "all"] / time_ms)
    return found


def billed_ms(bills: Iterable[Bill]) -> int:
    """A fleet seldom starts or stops on the minute: at either end of minutes in a row, one counts by its GPU time
    against the next inside, if it has less."""
    by_minute = grouped((one.minute_ms, one) for one in bills)
    gpu_ms = {minute: _total(group, "gpu_ms") for minute, group in by_minute.items()}
    time_ms = 0.0
    for minute, own in gpu_ms.items():
        beside = [gpu_ms[other] for other in (minute - MINUTE_MS, minute + MINUTE_MS) if other in gpu_ms]
        whole = len(beside) != 1 or own >= beside[0]
        time_ms += MINUTE_MS if whole else MINUTE_MS * own / beside[0]
    return round(time_ms)


def _total(rows: Iterable[Any], name: str) -> int:
    """Of what is known."""
    return sum(getattr(one, name) or 0 for one in rows)


def _of_bills(bills: Sequence[Bill], lines: Sequence[BillLine]) -> Found:
    """Of all, and by type of GPU: its hours, money, energy, and what was computed on it."""
    found: Found = {}
    if not bills:
        return found
    found["meter_mj", "all"] = _total(bills, "meter_mj")
    found["billed_ms", "all"] = billed_ms(bills)
    for name in ("unpriced_gpu_ms", "estimated_gpu_ms"):
        found[f"bill_{name}", "all"] = _total(bills, name)
    found["provisional_bills", "all"] = sum(not one.final for one in bills)
    for owner, group in grouped((one.owner, one) for one in bills if one.use == "idle").items():
        found["idle_host_nusd", f"host={owner}"] = _total(group, "total_nusd")
        found["idle_host_gpu_ms", f"host={owner}"] = _total(group, "gpu_ms")
    for region, group in grouped((one.region, one) for one in bills).items():
        for name in ("energy_mj", "meter_mj", "carbon_ug", "gpu_ms"):
            found[f"place_{name}", f"region={region}"] = _total(group, name)
    computed = grouped((one.gpu_model, one) for one in lines)
    for model, group in grouped((one.gpu_model, one) for one in bills).items():
        of, own = f"gpu_model={model or 'several types'}", computed.get(model, [])
        for name in ("gpu_ms", "energy_mj", "meter_mj", "carbon_ug", "unpriced_gpu_ms"):
            found[f"type_{name}", of] = _total(group, name)
        found["type_cost_nusd", of] = _total(group, "total_nusd")
        priced = [one for one in group if one.gpu_nusd is not None]
        found["type_machine_nusd", of] = _total(priced, "gpu_nusd") + _total(priced, "host_nusd")
        found["type_idle_nusd", of] = _total((one for one in group if one.use == "idle"), "total_nusd")
        found["type_requests", of] = _total(own, "requests")
        found["type_prompt_tokens", of] = _total(own, "prefill_tokens") + _total(own, "cached_tokens")
        found["type_decode_tokens", of] = _total(own, "decode_tokens")
    return found


def _of_parts(parts: Sequence[Part]) -> Found:
    """Money and energy; as lists have it, where what is nobody's stands under its part, and by labels alone."""
    found: Found = {}

    def add(metric: str, of: str, amount: int | None) -> None:
        found[metric, of] = found.get((metric, of), 0) + (amount or 0)

    for one in parts:
        for of in ("all", f"model={one.model}", f"tenant={one.tenant}"):
            add("cost_nusd", of, one.cost_nusd)
            add("energy_mj", of, one.energy_mj)
        for dimension, name in (("model", one.model), ("tenant", one.tenant)):
            listed = f"{dimension}={one.part if one.status is None else name}"
            for amount in ("cost_nusd", "energy_mj", "meter_mj", "carbon_ug", "gpu_ms"):
                add(f"listed_{amount}", listed, getattr(one, amount))
            if one.status not in (None, "ok"):
                ended = "aborted" if one.status == "aborted" else "unanswered"
                add(f"{ended}_nusd", f"{dimension}={name}", one.cost_nusd)
        add("cost_nusd", f"part={one.part}", one.cost_nusd)
        if one.status is not None and one.status != "ok":
            for name in ("cost_nusd", "energy_mj", "meter_mj", "carbon_ug"):
                add(f"not_ok_{name}", f"ended={one.status} {one.model} {one.tenant}", getattr(one, name))
        if one.use == "engine":
            add(f"{_spent_on(one)}_nusd", f"engine={one.owner}", one.cost_nusd)
            add("cost_nusd", f"engine={one.owner}", one.cost_nusd)
    return found


def _spent_on(part: Part) -> str:
    if part.part == "__overhead__":
        return "startup" if part.status is None else "failed"
    return "request" if part.part == "request" else "unused"


def _unused(parts: Sequence[Part]) -> Found:
    """GPUs that computed nothing, by why and type."""
    found: Found = {}
    why = {"__idle__": "no model loaded", "__wasted__": "a model loaded, no tokens"}
    unused = [one for one in parts if one.part in why]
    for (part, model), group in grouped(((one.part, one.gpu_model), one) for one in unused).items():
        of = f"why={why[part]}, {model or 'several types'}"
        found["idle_gpu_ms", of], found["idle_nusd", of] = _total(group, "gpu_ms"), _total(group, "cost_nusd")
        for name in ("idle_gpu_ms", "idle_nusd"):
            found[name, "all"] = found.get((name, "all"), 0) + found[name, of]
    for owner, group in grouped((one.owner, one) for one in unused).items():
        found["idle_gpu_ms", f"owner={owner}"] = _total(group, "gpu_ms")
        found["idle_nusd", f"owner={owner}"] = _total(group, "cost_nusd")
    return found


def _of_requests(parts: Sequence[Part], lines: Sequence[BillLine]) -> Found:
    """Of each model, and of each tenant: what its tokens cost, and money, GPU time and energy of a request of it."""
    found: Found = {}
    for dimension in ("model", "tenant"):
        ended = grouped((getattr(one, dimension), one) for one in lines)
        for name, group in grouped((getattr(one, dimension), one) for one in parts).items():
            own = ended.get(name, [])
            of, requests = f"{dimension}={name}", _total(own, "requests")
            work = [one for one in group if one.kind in WORK]
            found["billed_requests", of] = requests
            priced = [one for one in own if "usd" in one.has]
            well = [one for one in priced if one.status == "ok"]
            for metric, counted in (("nusd_per_request", priced), ("nusd_per_ok", well)):
                if name != "None" and (count := _total(counted, "requests")):
                    found[metric, of] = _total(group, "cost_nusd") / count
            for amount in ("gpu_ms", "energy_mj"):
                found[f"whole_{amount}", of], found[f"work_{amount}", of] = _total(group, amount), _total(work, amount)
                if requests and name != "None":
                    found[f"{amount}_per_request", of] = _total(group, amount) / requests
            if whole := _total(parts, "energy_mj"):
                found["energy_share", of] = _total(group, "energy_mj") / whole
        served = ((getattr(one, dimension), one) for one in parts if one.status is not None)
        for name, group in grouped(served).items():
            found |= {(metric, f"{dimension}={name}"): value for metric, value in unit_costs(group).items()}
    return found


def unit_costs(group: Sequence[Part]) -> Mapping[str, float]:
    """Tokens that were paid for, what both sides cost, and a million of each."""
    found: dict[str, float] = {}
    generated = sum(one.amount or 0 for one in group if one.kind == "decode") > 0
    for side, kind in (("uncached", "prefill"), ("output", "decode")):
        if side == "output" and not generated:
            continue
        kinds = {kind, "kv"} if generated == (side == "output") else {kind}
        for unit, column, scale in UNITS:
            spent = _total((one for one in group if one.kind in kinds), column)
            tokens = sum(one.amount or 0 for one in group if one.kind == kind and getattr(one, column) is not None)
            if unit == "usd":
                found[f"{side}_nusd"], found[f"priced_{side}_tokens"] = spent, tokens
            if tokens:
                found[f"{unit}_per_million_{side}"] = spent / scale / tokens * 1e6
    return found


def by_hour(parts: Sequence[Part], lines: Sequence[BillLine]) -> Found:
    """By hour, tenant and model, what is nobody's by its part: sums, unit costs, and what a request comes to."""

    def row(one: Part | BillLine, unused: str) -> str:
        return f"hour={one.minute_ms // HOUR_MS} {one.tenant} {one.model} {unused}"

    money = grouped((row(one, one.part if one.status is None else ""), one) for one in parts)
    ended = grouped((row(one, ""), one) for one in lines)
    found: Found = {}
    for of in {*money, *ended}:
        group, own = money.get(of, []), ended.get(of, [])
        cached = _total((one for one in own if "usd" in one.has), "cached_tokens")
        sums: dict[str, float] = {"requests": _total(own, "requests"), "cached_tokens": cached}
        for name in ("cost_nusd", "energy_mj", "gpu_ms", "meter_mj", "carbon_ug"):
            sums[name] = _total(group, name)
        sums |= unit_costs(group)
        for unit, column, scale in UNITS:
            if requests := _total((one for one in own if unit in one.has), "requests"):
                sums[f"{unit}_per_request"] = sums[column] / scale / requests
        found |= {(f"hourly_{name}", of): value for name, value in sums.items()}
    return found
