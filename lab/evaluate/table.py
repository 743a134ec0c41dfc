"""What goes wrong, fixed before anything was measured: effect, length, what must be named, and how soon.

``within_s`` counts from the onset to the end of the window (or the time of the event) at which the alert opened. For
steps it is two windows of the rule; where silence is the symptom, what silence takes (``no_data`` waits half a minute)
and two windows; for slow faults, the time until a tenth of the headroom is used, or what is said beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_S = 60
HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of trouble. ``fault`` is its kind in the simulated fleet, ``target`` the label by which one is picked,
    ``cause`` the dimension that the alert must name first (None: it must not notify)."""

    name: str
    fault: str
    target: str
    strength: float
    lasts_s: int
    cause: str | None
    within_s: float = 0.0
    why: str = ""
    settles_s: int = 15 * MINUTE_S
    """Its alert must be resolved so long after it has ended."""


EVENT_S = 1.0
SILENCE_S = 30 + 2 * 10
READING_S = 5
"""Of the simulation: a reading covers the seconds before it, so the first that shows a fault comes so much later."""
FAST_S = 2 * 10 + READING_S
USUAL_S = 2 * MINUTE_S
DEPLOYED_S = 5 * MINUTE_S
"""Three windows of a minute, and one more where few requests come: two hundred of the new version are needed."""
STARVED_S = 4 * MINUTE_S
TRAINING_S = 3 * MINUTE_S
"""Two windows of a minute, and the one in which it begins: it counts where most of its steps are slow."""
LEAK_S = 0.1 / 0.8 * 3 * HOUR_S
"""Until a tenth of the headroom is used."""
DRIFT_S = 150 * MINUTE_S
SLOW_S = 30 * MINUTE_S
"""What took hours to come is watched for half an hour before it counts as over."""

CASES: tuple[Case, ...] = (
    Case("gpu_lost", "gpu_lost", "gpu", 1.0, 15 * MINUTE_S, "gpu_uuid", EVENT_S, "XID 79, reported as it happens"),
    Case("ecc_storm", "ecc_storm", "gpu", 50.0, 10 * MINUTE_S, "gpu_uuid", EVENT_S, "reported at once", 65 * MINUTE_S),
    Case("thermal_throttle", "thermal_throttle", "gpu", 0.4, 15 * MINUTE_S, "gpu_uuid", FAST_S, "10 s windows"),
    Case("power_brake", "power_brake", "gpu", 0.5, 15 * MINUTE_S, "gpu_uuid", FAST_S, "10 s windows"),
    Case("straggler", "straggler", "group_gpu", 0.3, 15 * MINUTE_S, "gpu_uuid", FAST_S, "one GPU of four"),
    Case("memory_leak", "memory_leak", "gpu", 0.8, 3 * HOUR_S, "gpu_uuid", LEAK_S, "a tenth", SLOW_S),
    Case("kv_pressure", "kv_pressure", "engine_id", 0.97, 15 * MINUTE_S, "engine_id", USUAL_S),
    Case("version_regression", "latency_regression", "model_version", 0.2, 20 * MINUTE_S, "model_version", USUAL_S),
    Case(
        "deployment",
        "deployment",
        "whole_model",
        0.2,
        20 * MINUTE_S,
        "model_version",
        DEPLOYED_S,
        "versions are compared by the minute",
        SLOW_S,
    ),
    Case("engine_slow", "latency_regression", "engine_id", 0.5, 15 * MINUTE_S, "engine_id", USUAL_S),
    Case("starved", "starved", "only_engine", 0.95, 15 * MINUTE_S, "engine_id", STARVED_S, "three windows of a minute"),
    Case(
        "slow_kernels", "slow_kernels", "8_bit_engine", 0.4, 15 * MINUTE_S, "engine_id", USUAL_S, "its steps are slower"
    ),
    Case("pcie_width", "pcie_width", "gpu", 0.5, 15 * MINUTE_S, "gpu_uuid", FAST_S, "10 s windows"),
    Case("nvlink_errors", "nvlink_errors", "group_gpu", 500.0, 10 * MINUTE_S, "gpu_uuid", FAST_S, "10 s windows"),
    Case("error_burst", "error_burst", "engine_id", 0.3, 10 * MINUTE_S, "engine_id", USUAL_S),
    Case("cold_start", "cold_start", "only_engine", 1.0, 5 * MINUTE_S, "engine_id", USUAL_S),
    Case("host_down", "host_down", "host", 1.0, 15 * MINUTE_S, "host", SILENCE_S, "silence of half a minute"),
    Case("network_partition", "network_partition", "host", 1.0, 10 * MINUTE_S, "host", SILENCE_S, "likewise"),
    Case("clock_fast", "clock_skew", "host", 60.0, 10 * MINUTE_S, "host", SILENCE_S, "its events lie in the future"),
    Case("clock_slow", "clock_skew", "host", -60.0, 10 * MINUTE_S, "host", SILENCE_S, "its events are a minute old"),
    Case("slow_drift", "slow_drift", "engine_id", 0.6, DRIFT_S, "engine_id", DRIFT_S / 2, "below +30 %", SLOW_S),
    Case(
        "training_straggler",
        "training_straggler",
        "rank",
        0.3,
        15 * MINUTE_S,
        "rank",
        TRAINING_S,
        "windows of a minute",
    ),
    Case("traffic_surge", "traffic_surge", "load_model", 1.0, 15 * MINUTE_S, None, why="healthy: more load"),
    Case("budget_overrun", "budget_overrun", "tenant", 3.0, 20 * MINUTE_S, None, why="healthy: a matter of money"),
)
OVERRUN = Case(
    "budget_crossed", "budget_overrun", "tenant", 3.0, 6 * HOUR_S, "tenant", 2 * MINUTE_S, "from the bill on", HOUR_S
)
"""Of days of its own (``fleetpulse evaluate --budgets``): the onset is the bill with which the amount is spent."""
BESIDE = frozenset({"training_straggler"})
"""Drawn from randomness of their own and set beside the others, which come as if these were not there: apart in time
from what touches the same host alone."""
BY_NAME = {case.name: case for case in CASES}

REST_S = 5 * MINUTE_S
"""At least so long between the time by which one has settled and the begin of the next."""
WARM_UP_S = 2 * HOUR_S
"""Before the first."""
PRECISION_MIN = 1.0
RECALL_MIN = 1.0
CAUSE_FIRST_MIN = 0.95
ON_TIME_SHARE = 0.95
"""Of the alerts of a kind, opened within its ``within_s`` (p95)."""
