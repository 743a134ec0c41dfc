"""Who takes part in the demo: the children and their arguments, decided before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fleetpulse.services.processes import Command
from schemas.rows.tables import GROUPED

GPUS = 64
SPEED = 60
JOBS = ("windows", "finals", "alerts", "costs")
DATA = Path(__file__).parents[1] / "data" / "demo"
RULES, BUDGETS = DATA / "rules.yaml", DATA / "budgets.yaml"
COMPILED = {"jobs": "stream_jobs", "simulate": "lab.simulator"}
"""The package with the loops of each group that ``fleetpulse compile`` takes."""
SOURCES = tuple(event.topic for event in GROUPED)


@dataclass(frozen=True, slots=True)
class Scenario:
    """``seconds`` is how long load is produced; ``folder`` holds spools, logs and the ground truth.

    ``data_dir`` is where the stack lives."""

    seconds: int
    seed: int
    folder: Path
    data_dir: Path
    gpus: int = GPUS
    speed: int = SPEED

    def compilers(self, groups: Iterable[str]) -> tuple[Command, ...]:
        """One process for each group of loops (``fleetpulse compile``)."""
        return tuple(
            Command(f"compile-{group}", ("compile", group), self._environment, restart=False) for group in groups
        )

    def services(self) -> tuple[Command, ...]:
        """The jobs and the sink; requests and alerts are judged by the demo's objectives, spend by its budgets."""
        rules = ("--rules", str(RULES))
        own = {"windows": rules, "alerts": (*rules, "--budgets", str(BUDGETS))}
        jobs = (("jobs", job, "--name", f"demo-{job}", *own.get(job, ())) for job in JOBS)
        return (
            *(Command(words[1], words, self._environment) for words in jobs),
            Command("sink", ("sink",), self._environment),
        )

    def dashboard(self, port: int) -> Command:
        """The dashboard, with the same objectives and budgets."""
        words = ("dashboard", "--port", str(port), "--rules", str(RULES), "--budgets", str(BUDGETS))
        return Command("dashboard", words, self._environment)

    @property
    def faults_file(self) -> Path:
        """Where the schedule of faults stands, as ``fleetpulse simulate --faults`` reads it."""
        return self.folder / "faults.json"

    def faults(self) -> list[dict[str, object]]:
        """One GPU of a tensor-parallel group gets hot, another is lost and comes back: shares of the run."""
        hot = {"kind": "thermal_throttle", "field": "gpu", "value": "gpu-000:2", "strength": 0.5}
        lost = {"kind": "gpu_lost", "field": "gpu", "value": "gpu-001:5"}
        return [
            hot | {"from_s": round(0.2 * self.seconds), "to_s": round(0.8 * self.seconds)},
            lost | {"from_s": round(0.3 * self.seconds), "to_s": round(0.6 * self.seconds)},
        ]

    @property
    def fleet_spool(self) -> Path:
        """The folder that is there once the simulated fleet produces."""
        return self.folder / "spool-fleet"

    def edges(self) -> tuple[Command, ...]:
        """The simulated fleet under the Azure traces, and this machine's own host (and GPU) readings."""
        ending = ("--seconds", str(self.seconds), "--truth", str(self.folder / "truth"))
        return self._edges("", (*ending, "--faults", str(self.faults_file)))

    def edges_after(self) -> tuple[Command, ...]:
        """The same fleet, healthy and without an end, for a demo that goes on."""
        return self._edges("-after", ())

    def _edges(self, name: str, ending: tuple[str, ...]) -> tuple[Command, ...]:
        simulate = (
            "simulate", "--load", "azure", "--speed", str(self.speed), "--gpus", str(self.gpus),
            "--seed", str(self.seed), "--spool", f"{self.fleet_spool}{name}", *ending,
        )  # fmt: skip
        agent = ("agent", "--spool", str(self.folder / f"spool-host{name}"))
        return (
            Command(f"simulate{name}", simulate, self._environment, restart=False),
            Command(f"agent{name}", agent, self._environment, restart=False),
        )

    @property
    def _environment(self) -> dict[str, str]:
        """Children look for the stack where this command does."""
        return {"FLEETPULSE_DATA_DIR": str(self.data_dir)}
