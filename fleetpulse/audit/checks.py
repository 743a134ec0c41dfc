"""The audit's checks, in SQL: nothing here grows with the number of bills.

What is held against one another, for every bill and minute of a range, exactly:

- **parts**: parts of a bill against the bill: money, energy, GPU time; its three components against its total;
- **measured**: GPU time and energy billed against the rows of GPU readings, requests and tokens against usage rows;
- **start-up**: the part of a bill in which its engine was starting against what readings say, to the millisecond;
- **shared**: GPU time of engines side by side on one GPU against the memory that each held, to the millisecond;
- **priced**: bills against time and energy priced again here, each term rounded half to even, by ``(group, minute)``;
- **rollups**: hours and days against minutes, parts and lines against bills; what reports read (``billed`` and its
  like, from rollups that are kept in tables of their own) against bills, parts and owners.

A bill holds the rows up to its ``revision``, an offset of ``window.partials``. Stored rows beyond it came when the
minute was no longer kept: they are *late*, listed, and a rerate takes them in. Those of a group and minute without any
bill are counted apart: the cost job has lost them, or has not come to them. Bills of minutes with estimated time are
not priced again: gaps are filled GPU by GPU, and only their sum stands in the bill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from stream_jobs.costs.bill import MIG_SLICES

LISTED_MAX = 20
BUCKETS_MS = {"hour": HOUR_MS, "day": DAY_MS}


@dataclass(frozen=True, slots=True)
class Check:
    """``compared`` cells, of which ``differing`` differ, by ``difference`` in all; ``examples`` name some."""

    name: str
    compared: int
    differing: int
    difference: int
    examples: Sequence[str] = ()


def _differing(cell: str = "'group', grp, minute_ms") -> str:
    """How many rows (cell, off) there are, how many are off, by how much in all, and the first of these."""
    listed = f"groupArrayIf({LISTED_MAX})(({cell}, toInt64(off)), off != 0)"
    return f"SELECT count(), countIf(off != 0), toInt64(sum(off)), {listed}"


_RANGE = "minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64}"
_BILLED = f"""
    SELECT placement_group AS grp, minute_ms, max(c.revision) AS revision,
        sum(c.gpu_ms) - sum(c.estimated_gpu_ms) AS ms,
        ifNull(sum(c.energy_mj), 0) AS mj, ifNull(sum(c.total_nusd), 0) AS nusd, sum(c.estimated_gpu_ms) AS estimated,
        ifNull(sum(c.carbon_ug), 0) AS ug, countIf(c.energy_mj IS NOT NULL AND c.carbon_ug IS NULL) AS uncounted
    FROM costs AS c WHERE {_RANGE} GROUP BY grp, minute_ms
"""
_GROUP = "coalesce(p.placement_group, nullIf(toString(p.host), ''), '')"


def _rows(table: str, columns: str, where: str = "1") -> str:
    """Stored rows of a table of windows, with their group and minute."""
    return (
        f"SELECT {_GROUP} AS grp, intDiv(p.window_ms, {MINUTE_MS}) * {MINUTE_MS} AS minute_ms, p.log_offset AS at,"
        f" {columns} FROM {table} AS p FINAL"
        f" WHERE {where} AND p.window_ms >= {{from_ms:Int64}} AND p.window_ms < {{to_ms:Int64}}"
    )


_GPU_COLUMNS = (
    "ifNull(toString(p.gpu_uuid), '') AS gpu, toString(p.parent_uuid) AS parent, toString(p.engine_id) AS engine,"
    " ifNull(toString(p.gpu_model), '') AS gpu_model, ifNull(toString(p.region), '') AS region,"
    " ifNull(toString(p.host), '') AS host, toString(p.mig_profile) AS profile,"
    " ifNull(p.workload IN ('training', 'fine_tuning'), 0) AS training, p.interval_ms_sum AS ms, p.energy_mj_sum AS mj,"
    " if(p.workload = 'startup', p.interval_ms_sum, 0) AS starting_ms"
)
_GPU = _rows("gpu_samples_partials", _GPU_COLUMNS, "p.grouping = 'gpu'")
_SHARE_COLUMNS = (
    "ifNull(toString(p.gpu_uuid), '') AS gpu, toString(p.engine_id) AS engine, p.readings AS readings,"
    " p.memory_readings AS memory_readings, p.memory_bytes AS held"
)
_SHARES = _rows("gpu_shares", _SHARE_COLUMNS)
_USAGE_COLUMNS = (
    "p.requests AS requests, p.prefill_tokens AS prefill, p.cached_tokens AS cached, p.decode_tokens AS decode"
)
_USAGE = _rows("usage", f"{_USAGE_COLUMNS}, p.kv_token_ms AS kv")

PARTS = f"""
{_differing("use, owner, minute_ms")}
FROM (
    SELECT use, owner, minute_ms,
        abs(arraySum(arrayMap(n -> ifNull(n, 0), part_cost_nusd)) - ifNull(total_nusd, 0))
        + abs(arraySum(arrayMap(n -> ifNull(n, 0), part_energy_mj)) - ifNull(energy_mj, 0))
        + abs(arraySum(arrayMap(n -> ifNull(n, 0), part_carbon_ug)) - ifNull(carbon_ug, 0))
        + abs(arraySum(arrayMap(n -> ifNull(n, 0), part_gpu_ms)) - gpu_ms)
        + abs(ifNull(gpu_nusd, 0) + ifNull(host_nusd, 0) + ifNull(energy_nusd, 0) - ifNull(total_nusd, 0))
        + ((total_nusd IS NULL) != arrayAll(n -> n IS NULL, part_cost_nusd))
        + ((carbon_ug IS NULL) != arrayAll(n -> n IS NULL, part_carbon_ug)) AS off
    FROM costs WHERE {_RANGE}
)
"""

# A GPU's time is that of its own readings; where only MIG devices reported, that of the one with most.
_PHYSICAL = """
    SELECT grp, minute_ms, gpu, if(owned > 0, own_ms, device_ms) AS ms, if(owned > 0, own_mj, device_mj) AS mj
    FROM (
        SELECT grp, minute_ms, coalesce(parent, gpu) AS gpu,
            countIf(parent IS NULL) AS owned, sumIf(device.ms, parent IS NULL) AS own_ms,
            sumIf(device.mj, parent IS NULL) AS own_mj,
            maxIf(device.ms, parent IS NOT NULL) AS device_ms, sumIf(device.mj, parent IS NOT NULL) AS device_mj
        FROM (
            SELECT grp, minute_ms, gpu, parent, sum(r.ms) AS ms, ifNull(sum(r.mj), 0) AS mj
            FROM rows AS r INNER JOIN billed AS t USING (grp, minute_ms) WHERE r.at <= t.revision
            GROUP BY grp, minute_ms, gpu, parent
        ) AS device GROUP BY grp, minute_ms, gpu
    )
"""

MEASURED_GPU = f"""
WITH billed AS ({_BILLED}), rows AS ({_GPU}), physical AS ({_PHYSICAL})
{_differing()}
FROM (
    SELECT grp, minute_ms, abs(toInt64(t.ms) - ifNull(toInt64(m.ms), 0)) + abs(toInt64(t.mj) - ifNull(toInt64(m.mj), 0))
        AS off
    FROM billed AS t LEFT JOIN (
        SELECT grp, minute_ms, sum(p.ms) AS ms, sum(p.mj) AS mj FROM physical AS p GROUP BY grp, minute_ms
    ) AS m USING (grp, minute_ms)
)
"""

STARTED = f"""
WITH billed AS ({_BILLED}), rows AS ({_GPU})
{_differing("'engine', owner, minute_ms")}
FROM (
    SELECT b.owner AS owner, b.minute_ms AS minute_ms, b.started AS started, r.starting_ms AS starting_ms,
        abs(b.started - intDiv(toInt256(b.gpu_ms) * r.starting_ms, greatest(r.ms, 1))) AS off
    FROM (
        SELECT placement_group AS grp, minute_ms, owner, c.gpu_ms AS gpu_ms,
            arraySum((kind, ms) -> if(kind = 'startup', ifNull(ms, 0), 0), part_kind, part_gpu_ms) AS started
        FROM costs AS c WHERE use = 'engine' AND {_RANGE}
    ) AS b
    LEFT JOIN (
        SELECT grp, minute_ms, ifNull(engine, '') AS owner, ifNull(sum(r.ms), 0) AS ms,
            ifNull(sum(r.starting_ms), 0) AS starting_ms
        FROM rows AS r INNER JOIN billed AS t USING (grp, minute_ms) WHERE r.at <= t.revision
        GROUP BY grp, minute_ms, owner
    ) AS r ON b.grp = r.grp AND b.minute_ms = r.minute_ms AND b.owner = r.owner
    WHERE started > 0 OR starting_ms > 0
)
"""

_TOKENS = ("requests", "prefill", "cached", "decode", "kv")
MEASURED_USAGE = f"""
WITH billed AS ({_BILLED}), rows AS ({_USAGE})
{_differing()}
FROM (
    SELECT grp, minute_ms, {" + ".join(f"abs(toInt64(l.{name}) - toInt64(u.{name}))" for name in _TOKENS)} AS off
    FROM (
        SELECT placement_group AS grp, minute_ms, sum(c.requests) AS requests,
            ifNull(sum(c.prefill_tokens), 0) AS prefill,
            ifNull(sum(c.cached_tokens), 0) AS cached,
            ifNull(sum(c.decode_tokens), 0) AS decode,
            ifNull(sum(c.kv_token_ms), 0) AS kv
        FROM cost_lines AS c WHERE {_RANGE} GROUP BY grp, minute_ms
    ) AS l
    FULL OUTER JOIN (
        SELECT grp, minute_ms, {", ".join(f"ifNull(sum(r.{name}), 0) AS {name}" for name in _TOKENS)}
        FROM rows AS r INNER JOIN billed AS t USING (grp, minute_ms) WHERE r.at <= t.revision GROUP BY grp, minute_ms
    ) AS u USING (grp, minute_ms)
)
"""

LATE = f"""
WITH billed AS ({_BILLED}), gpu AS ({_GPU}), used AS ({_USAGE}), shared AS ({_SHARES})
SELECT toInt64(sum(gpu_rows)), toInt64(sum(usage_rows)), toInt64(sum(share_rows)), count(),
    countIf(no_bill), groupArray({LISTED_MAX})(
        (minute_ms, grp, gpu_rows, late_ms, usage_rows, late_requests, share_rows, no_bill)
    )
FROM (
    SELECT grp, minute_ms, max(t.minute_ms) = 0 AS no_bill, sum(g) AS gpu_rows, sum(ms) AS late_ms,
        sum(u) AS usage_rows, sum(requests) AS late_requests, sum(s) AS share_rows
    FROM (
        SELECT grp, minute_ms, at, 1 AS g, ifNull(gpu.ms, 0) AS ms, 0 AS u, 0 AS requests, 0 AS s FROM gpu
        UNION ALL SELECT grp, minute_ms, at, 0, 0, 1, used.requests, 0 FROM used
        UNION ALL SELECT grp, minute_ms, at, 0, 0, 0, 0, 1 FROM shared
    ) AS r LEFT JOIN billed AS t USING (grp, minute_ms)
    WHERE t.minute_ms = 0 OR r.at > t.revision
    GROUP BY grp, minute_ms ORDER BY minute_ms, grp
)
"""


def _half_even(amount: str, divisor: str) -> str:
    """SQL of a division rounded half to even, in 256 bits."""
    whole, rest = f"intDiv({amount}, {divisor})", f"2 * modulo({amount}, {divisor})"
    return f"{whole} + multiIf({rest} > {divisor}, 1, {rest} = {divisor}, modulo({whole}, 2), 0)"


_TIME, _ENERGY = "toInt256(3600000)", "toInt256(3600000000000000)"
_TERMS = " + ".join(
    [
        f"ifNull({_half_even('toInt256(ms) * gpu_price', _TIME)}, 0)",
        f"ifNull({_half_even('toInt256(ms) * host_price', _TIME)}, 0)",
        f"ifNull({_half_even('toInt256(mj) * energy_price * pue', _ENERGY)}, 0)",
    ]
)
_EMITTED = f"ifNull({_half_even('toInt256(mj) * grid * pue', _ENERGY)}, 0)"
SIZED = rf"^[1-{MIG_SLICES}][cg](\.|$)"
"""The MIG profiles that say a size, as ``stream_jobs.costs.bill.slices_held`` reads them."""
_SIZE = f"match(ifNull(profile, ''), '{SIZED.replace(chr(92), 2 * chr(92))}')"

_RUN = f"Tuple(String, String, Int64, Int64, {', '.join(['Nullable(Int64)'] * 5)})"

_RATED = f"""
WITH billed AS ({_BILLED}), rows AS ({_GPU}),
kept AS (SELECT r.* FROM rows AS r INNER JOIN billed AS t USING (grp, minute_ms) WHERE r.at <= t.revision),
shared AS (
    SELECT DISTINCT s.grp AS grp, s.minute_ms AS minute_ms, s.gpu AS gpu
    FROM ({_SHARES}) AS s INNER JOIN billed AS t USING (grp, minute_ms) WHERE s.at <= t.revision
),
divided AS (
    SELECT grp, minute_ms, gpu, min(has_size) AS sized FROM (
        SELECT grp, minute_ms, ifNull(parent, '') AS gpu, {_SIZE} AS has_size FROM kept WHERE parent IS NOT NULL
        UNION ALL SELECT grp, minute_ms, gpu, 1 FROM shared
    ) GROUP BY grp, minute_ms, gpu
),
terms AS (
    SELECT grp, minute_ms, gpu, gpu_model, region, sum(k.ms) AS ms, sum(k.mj) AS mj, 1 AS sized
    FROM kept AS k LEFT ANTI JOIN divided AS d
        ON k.grp = d.grp AND k.minute_ms = d.minute_ms AND coalesce(k.parent, k.gpu) = d.gpu
    GROUP BY grp, minute_ms, gpu, gpu_model, region, host, engine, training
    UNION ALL
    SELECT p.grp, p.minute_ms, p.gpu, any(k.gpu_model), any(k.region), any(p.ms), any(p.mj), any(d.sized)
    FROM ({_PHYSICAL}) AS p
    INNER JOIN divided AS d ON p.grp = d.grp AND p.minute_ms = d.minute_ms AND p.gpu = d.gpu
    INNER JOIN kept AS k ON p.grp = k.grp AND p.minute_ms = k.minute_ms AND p.gpu = coalesce(k.parent, k.gpu)
    GROUP BY p.grp, p.minute_ms, p.gpu
),
prices AS (
    SELECT t.1 AS gpu_model, t.2 AS region, t.3 AS from_ms, t.4 AS until_ms, t.5 AS gpu_price, t.6 AS host_price,
        t.7 AS energy_price, t.8 AS pue, t.9 AS grid
    FROM (SELECT arrayJoin({{prices:Array({_RUN})}}) AS t)
)
"""


def _again(amount: str, terms: str, where: str) -> str:
    """An amount of the bills of each group and minute against the same computed from readings and prices."""
    return f"""{_RATED}{_differing()}
FROM (
    SELECT grp, minute_ms, abs(toInt256(t.{amount}) - e.again) AS off
    FROM billed AS t INNER JOIN (
        SELECT grp, minute_ms, sum({terms}) AS again
        FROM terms AS a INNER JOIN prices AS b USING (gpu_model, region)
        WHERE a.minute_ms >= b.from_ms AND a.minute_ms < b.until_ms AND a.sized
        GROUP BY grp, minute_ms
    ) AS e USING (grp, minute_ms)
    WHERE {where}
)
"""


PRICED = _again("nusd", _TERMS, "t.estimated = 0")
EMITTED = _again("ug", _EMITTED, "t.uncounted = 0")

SHARED = f"""
WITH billed AS ({_BILLED}), rows AS ({_GPU}), physical AS ({_PHYSICAL}),
alone AS (
    SELECT grp, minute_ms, any(p.gpu) AS gpu, any(p.ms) AS ms FROM physical AS p
    INNER JOIN billed AS t USING (grp, minute_ms) WHERE t.estimated = 0 GROUP BY grp, minute_ms HAVING count() = 1
),
held AS (
    SELECT s.grp AS grp, s.minute_ms AS minute_ms, s.gpu AS gpu, s.engine AS engine, sum(s.readings) AS readings,
        sum(s.memory_readings) AS memory_readings, toInt256(ifNull(sum(s.held), 0)) AS bytes
    FROM ({_SHARES}) AS s INNER JOIN billed AS t USING (grp, minute_ms) WHERE s.at <= t.revision
    GROUP BY grp, minute_ms, gpu, engine
),
weighed AS (
    SELECT grp, minute_ms, gpu, engine,
        min(readings = memory_readings) OVER same AND sum(bytes) OVER same > 0 AS by_memory,
        if(by_memory, bytes, 1) AS weight, if(by_memory, sum(bytes) OVER same, toInt256(count() OVER same)) AS whole
    FROM held WINDOW same AS (PARTITION BY grp, minute_ms, gpu)
)
{_differing()}
FROM (
    SELECT w.grp AS grp, w.minute_ms AS minute_ms,
        ifNull(intDiv(abs(toInt256(ifNull(b.gpu_ms, 0)) * w.whole - toInt256(a.ms) * w.weight), w.whole), 1) AS off
    FROM weighed AS w INNER JOIN alone AS a
        ON w.grp = a.grp AND w.minute_ms = a.minute_ms AND w.gpu = a.gpu
    LEFT JOIN (
        SELECT placement_group AS grp, minute_ms, owner, c.gpu_ms AS gpu_ms FROM costs AS c
        WHERE use = 'engine' AND {_RANGE}
    ) AS b ON w.grp = b.grp AND w.minute_ms = b.minute_ms AND w.engine = b.owner
)
"""

PLACES = f"""
SELECT DISTINCT gpu_model, region FROM ({_GPU})
"""

_SUMS = {
    "bills": ("costs", "{hour}(minute)", "total_nusd"),
    "parts": ("cost_parts", "{hour}(minute)", "cost_nusd"),
    "bills by {level}": ("costs_1{letter}", "{level}", "total_nusd"),
    "parts by {level}": ("cost_parts_1{letter}", "{level}", "cost_nusd"),
}
_LEVELS = {"hour": ("h", "toStartOfHour"), "day": ("d", "toStartOfDay")}


def rollups(level: str) -> str:
    """Bills of each (use, owner, bucket) against parts, and both against the sums by hour or day."""
    letter, function = _LEVELS[level]
    parts = []
    for number, (table, bucket, amount) in enumerate(_SUMS.values()):
        view = table.format(letter=letter)
        start = bucket.format(hour=function, level=level)
        sums = ", ".join(
            f"{f'ifNull(sum(c.{name}), 0)' if i == number else '0'} AS {of}{i}"
            for of, name in (("s", amount), ("u", "carbon_ug"))
            for i in range(len(_SUMS))
        )
        parts.append(
            f"SELECT use, owner, toUnixTimestamp({start}) * 1000 AS at_ms, {sums} FROM {view} AS c"
            f" WHERE {_bounds(view, start)} GROUP BY use, owner, at_ms"
        )
    off = " + ".join(f"abs(sum({of}0) - sum({of}{i}))" for of in "su" for i in range(1, len(_SUMS)))
    every = " UNION ALL ".join(parts)
    inner = f"SELECT use, owner, at_ms, {off} AS off FROM ({every}) GROUP BY use, owner, at_ms"
    return f"{_differing('use, owner, at_ms')} FROM ({inner} UNION ALL {_reported(BUCKETS_MS[level])})"


_REPORTED = (
    ("billed", "costs", "c.use", "'(all bills)'", "total_nusd"),
    ("billed_owners", "costs", "c.use", "c.owner", "total_nusd"),
    ("billed_parts", "cost_parts", "'part'", "c.part", "cost_nusd"),
)
"""What reports read, the view of the bills whose sums it holds, two words that name a sum, and the money."""


def _reported(bucket_ms: int) -> str:
    """Sums that reports read against those of the bills, by bucket: money, GPU time, energy, emissions."""
    parts = []
    for reported, view, first, second, money in _REPORTED:
        rolled = f"{reported}(from_ms = {{from_ms:Int64}}, to_ms = {{to_ms:Int64}}, bucket_ms = {bucket_ms})"
        sides = ((1, "minute_ms", view, _RANGE), (-1, "window_ms", rolled, "1"))
        for sign, moment, source, where in sides:
            sums = ", ".join(
                f"{sign} * ifNull(sum(c.{amount}), 0) AS {name}"
                for name, amount in (("nusd", money), ("ms", "gpu_ms"), ("mj", "energy_mj"), ("ug", "carbon_ug"))
            )
            parts.append(
                f"SELECT '{reported}' AS of, ifNull(toString({first}), '') AS word,"
                f" ifNull(toString({second}), '') AS name, intDiv(c.{moment}, {bucket_ms}) * {bucket_ms} AS at_ms,"
                f" {sums} FROM {source} AS c WHERE {where} GROUP BY word, name, at_ms"
            )
    off = " + ".join(f"abs(sum({amount}))" for amount in ("nusd", "ms", "mj", "ug"))
    return f"SELECT word, name, at_ms, {off} AS off FROM ({' UNION ALL '.join(parts)}) GROUP BY of, word, name, at_ms"


def _bounds(view: str, start: str) -> str:
    if view in ("costs", "cost_parts"):
        return _RANGE
    at_ms = f"toUnixTimestamp({start}) * 1000"
    return f"{at_ms} >= {{from_ms:Int64}} AND {at_ms} < {{to_ms:Int64}}"
