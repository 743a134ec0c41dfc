"""Who takes part in the demo: the children and their arguments, decided before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetpulse.processes import Command
from schemas.tables import GROUPED

GPUS = 64
SPEED = 60
JOBS = ("windows", "finals", "alerts", "costs")
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

    def services(self) -> tuple[Command, ...]:
        """The jobs and the sink."""
        return (
            *(Command(job, ("jobs", job, "--name", f"demo-{job}"), self._environment) for job in JOBS),
            Command("sink", ("sink",), self._environment),
        )

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

    def edges(self) -> tuple[Command, ...]:
        """The simulated fleet under the Azure traces, and this machine's own host (and GPU) readings."""
        simulate = (
            "simulate", "--load", "azure", "--speed", str(self.speed),
            "--gpus", str(self.gpus), "--seed", str(self.seed),
            "--seconds", str(self.seconds), "--spool", str(self.folder / "spool-fleet"),
            "--truth", str(self.folder / "truth"), "--faults", str(self.faults_file),
        )  # fmt: skip
        agent = ("agent", "--spool", str(self.folder / "spool-host"))
        return (
            Command("simulate", simulate, self._environment, restart=False),
            Command("agent", agent, self._environment, restart=False),
        )

    @property
    def _environment(self) -> dict[str, str]:
        """Children look for the stack where this command does."""
        return {"FLEETPULSE_DATA_DIR": str(self.data_dir)}
