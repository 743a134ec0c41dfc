"""The distributions as users get them: what their wheels hold, what installing them brings, that they run.

Nothing is downloaded: wheels are built by the build backend of this environment, and packages that the product needs
are taken from it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from email import message_from_string
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = {"schemas", "runtime", "producers", "stream_jobs", "sinks", "fleetpulse"}
SDK_MODULES = {
    *(
        "__init__.py",
        "bodies.py",
        "calls.py",
        "encodings.py",
        "endings.py",
        "handover.py",
        "openai_client.py",
        "requests.py",
    ),
    *("requests.py", "streams.py", "py.typed", "plugins/__init__.py", "plugins/langchain.py", "plugins/litellm.py"),
    *("plugins/llamaindex.py", "plugins/vllm.py", "metrics.py", "torch_memory.py", "training.py"),
}


def run(command: Sequence[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Built once, by the name of the folder that each distribution lies in."""
    found = {}
    for name, folder in (("product", ROOT), ("lab", ROOT / "lab"), ("sdk", ROOT / "sdk")):
        into = tmp_path_factory.mktemp(name)
        run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into)], cwd=folder)
        (found[name],) = into.glob("*.whl")
    return found


class Environment:
    """An empty virtual environment; this one's packages can be lent to it, but for ours."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder)
        self.folder = folder
        self.bin = folder / "bin"

    def install(self, wheel: Path, *options: str) -> None:
        """As pip does, with no registry: a dependency that is not there is an error."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "--disable-pip-version-check"]
        run([*pip, "install", "--quiet", "--no-index", "--no-compile", *options, str(wheel)], self.folder)

    def lend(self) -> None:
        """Show it the packages that this environment has, as links, so that its own come first."""
        links = self.folder / "lent"
        links.mkdir()
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if not path.name.startswith(("fleetpulse", "_editable", "pip", "setuptools", "__pycache__")):
                (links / path.name).symlink_to(path)
        site = Path(self.python("import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        (site / "lent.pth").write_text(f"{links}\n")

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``fleetpulse``, on a terminal that is wide enough for every sentence."""
        command, wide = [str(self.bin / "fleetpulse"), *words], {**os.environ, "COLUMNS": "300"}
        return subprocess.run(command, cwd=self.folder, env=wide, capture_output=True, text=True, check=False)

    def python(self, code: str) -> str:
        """What a program prints, run in a folder that holds nothing of ours."""
        return run([str(self.bin / "python"), "-c", code], self.folder)


def names_of(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def metadata_of(wheel: Path) -> tuple[str, list[str], str]:
    """Name, dependencies and the oldest Python of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        (path,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        found = message_from_string(opened.read(path).decode())
    return found["Name"], found.get_all("Requires-Dist") or [], found["Requires-Python"]


def test_the_sdk_is_one_distribution_without_dependencies(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Its wheel holds its modules and their licence; an empty environment has it and nothing else, and runs it."""
    wheel = wheels["sdk"]
    environment = Environment(tmp_path / "environment")
    installed = "from importlib.metadata import distributions as d; print(*sorted(one.name for one in d()))"

    environment.install(wheel)

    held = {name for name in names_of(wheel) if ".dist-info/" not in name}
    assert held == {f"fleetpulse_track/{name}" for name in SDK_MODULES}
    assert [name for name in names_of(wheel) if name.endswith("/licenses/LICENSE")] != []
    assert metadata_of(wheel) == ("fleetpulse-track", [], ">=3.9")
    assert environment.python(installed).split() == ["fleetpulse-track"]
    environment.python("import fleetpulse_track; fleetpulse_track.request('m').finish()")
    group = "vllm.stat_logger_plugins"
    plugins = f"from importlib.metadata import entry_points as e; print(*[one.value for one in e(group='{group}')])"
    assert environment.python(plugins) == "fleetpulse_track.plugins.vllm:RequestLogger\n"


def test_the_product_holds_no_tests_and_no_lab_and_its_command_runs(wheels: dict[str, Path], tmp_path: Path) -> None:
    """From its wheel alone, beside the packages that it depends on; a command of the lab says where it comes from."""
    wheel = wheels["product"]
    environment = Environment(tmp_path / "environment")
    environment.install(wheel, "--no-deps")
    environment.lend()

    helped, demo = environment.command("--help"), environment.command("demo", "--seconds", "20")

    tops = {name.partition("/")[0] for name in names_of(wheel) if ".dist-info/" not in name}
    assert tops == PRODUCT
    assert [
        name for name in names_of(wheel) if {"tests", "bench", "lab"} & {*name.split("/")} or "/test_" in name
    ] == []
    assert metadata_of(wheel)[0] == "fleetpulse"
    assert (helped.returncode, "Usage: fleetpulse" in helped.stdout) == (0, True)
    assert (" reconcile " in helped.stdout, " simulate " in helped.stdout) == (True, False)
    assert demo.returncode == 2
    assert "fleetpulse-lab, which is not installed here" in " ".join(demo.stderr.replace("│", " ").split())
    assert environment.python("import fleetpulse; print(fleetpulse.__file__)").startswith(str(environment.folder))


def test_the_lab_adds_its_commands_beside_the_product(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Installed together; the lab's wheel holds its own package alone, with traces, the stub of NVML and pinned
    versions, but no results."""
    names = names_of(wheels["lab"])
    environment = Environment(tmp_path / "environment")
    environment.install(wheels["product"], "--no-deps")
    environment.install(wheels["lab"], "--no-deps")
    environment.lend()

    helped, demo = environment.command("--help"), environment.command("demo", "--help")

    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"lab"}
    assert {"lab/bench/nvml_stub.c", "lab/bench/counterparts-mock.txt"} <= names
    assert len([name for name in names if name.startswith("lab/data/azure_llm_2023/")]) == 4
    assert not [name for name in names if name.endswith(".json")]
    assert metadata_of(wheels["lab"])[:2] == ("fleetpulse-lab", ["fleetpulse"])
    assert (helped.returncode, " demo " in helped.stdout, " simulate " in helped.stdout) == (0, True, True)
    assert (demo.returncode, "Usage: fleetpulse demo" in demo.stdout) == (0, True)
