"""The NVML stub as a library of compiled code (``nvml_stub.c``), as a driver's is: what a call costs is then pynvml's
and the collector's own. It answers as ``nvml_stub`` does with ``gpus()``; nothing goes wrong with it.

Compiled when it is wanted, by the C compiler of this machine; where there is none, the stub in Python has to do, and
what it computes is counted with the agent.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import FleetpulseError

SOURCE = Path(__file__).with_name("nvml_stub.c")
GPUS_MAX = 64


def compiled(folder: Path) -> Path | None:
    """The library, made in this folder; None where there is no C compiler. Raises FleetpulseError when it fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "libnvidia-ml-stub.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FleetpulseError(f"{compiler} does not compile the NVML stub: {done.stderr[-2_000:]}")
    return library


class CompiledNvml:
    """``library`` is what ``nvml_stub.installed`` puts below pynvml."""

    def __init__(self, path: Path, gpus: int, delay_us: int = 0) -> None:
        assert 0 <= gpus <= GPUS_MAX, gpus
        self.library = ctypes.CDLL(str(path))
        ctypes.c_int.in_dll(self.library, "stub_gpus").value = gpus
        ctypes.c_long.in_dll(self.library, "stub_delay_ns").value = delay_us * 1_000

    @property
    def calls(self) -> Mapping[str, int]:
        """How often each function was called; without those that were not."""
        functions = ctypes.c_int.in_dll(self.library, "stub_functions").value
        names = (ctypes.c_char_p * functions).in_dll(self.library, "stub_names")
        counts = (ctypes.c_ulong * functions).in_dll(self.library, "stub_calls")
        return {name.decode(): count for name, count in zip(names, counts, strict=True) if count}

    def set_counted_s(self, at_s: float) -> None:
        """Counters have counted for so long, and stand still there."""
        ctypes.c_double.in_dll(self.library, "stub_at_s").value = at_s
