"""The units, read by systemd's own parser (systemd-analyze). Needs no running systemd."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fleetpulse.services.jobs_and_sink import JOBS

pytestmark = pytest.mark.full

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
EXPOSURE_MAX = {"fleetpulse-agent.service": 24}
"""In tenths, what ``systemd-analyze security`` gives; 15 for those that are not named."""
NAMES = sorted(path.name for path in DEPLOY.glob("*.service"))


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A folder of them, with a program that is there."""
    folder = tmp_path / "units"
    shutil.copytree(DEPLOY, folder)
    for path in folder.glob("*.service"):
        path.write_text(path.read_text().replace("/opt/fleetpulse/bin/fleetpulse", "/bin/true"))
    return folder


def analyze(units: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    assert program is not None, "no systemd-analyze here: install Debian's systemd"
    environment = {"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"}
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", [*NAMES, *(f"fleetpulse-jobs@{job}.service" for job in (*JOBS, "windows-2"))])
def test_systemd_reads_every_line(name: str, units: Path) -> None:
    """No error and no warning, such as that of a key it does not know; the drop-ins of jobs are read with them."""
    done = analyze(units, "verify", "--man=no", str(units / name))

    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_would_have_said(units: Path) -> None:
    """A key with a typo, in a drop-in too."""
    with (units / "fleetpulse-jobs@costs.service.d" / "instance.conf").open("a") as file:
        file.write("MemoryMost=1G\n")

    done = analyze(units, "verify", "--man=no", str(units / "fleetpulse-jobs@costs.service"))

    assert "MemoryMost" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_exposed_to_little(name: str, units: Path) -> None:
    """By systemd's own measure; the agent to more, which reads GPUs and the processes of others."""
    threshold = EXPOSURE_MAX.get(name, 15)

    done = analyze(units, "security", "--offline=true", f"--threshold={threshold}", str(units / name))

    assert (done.returncode, done.stderr) == (0, "")
