"""A stub of NVML as a library of compiled code (``nvml_stub.c``), as a driver's is: what a call costs is then pynvml's
and the collector's own. Eight GPUs of a Hopper that work; nothing goes wrong with them.

Compiled when it is wanted, by the C compiler of this machine.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from schemas.errors import FleetpulseError

SOURCE = Path(__file__).with_name("nvml_stub.c")
GPUS_MAX = 64


def compiled(folder: Path) -> Path:
    """The library, made in this folder. Raises FleetpulseError without a C compiler, or when it fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FleetpulseError("the stub of NVML needs a C compiler: install one that is called cc (gcc, clang)")
    library = folder / "libnvidia-ml-stub.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FleetpulseError(f"{compiler} does not compile the NVML stub: {done.stderr[-2_000:]}")
    return library


class CompiledNvml:
    """``library`` is what ``installed`` puts below pynvml."""

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


@contextmanager
def installed(library: Any) -> Iterator[Any]:
    """``pynvml`` on this library."""
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield library
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
