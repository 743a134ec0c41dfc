"""``fleetpulse agent`` on a host with two stub GPUs; the process of the given pid computes on the first."""

from __future__ import annotations

import sys

from tests.nvml_stub import NvmlStub, gpus, installed

if __name__ == "__main__":
    pid, *sys.argv[1:] = sys.argv[1:]
    first, second = gpus(2)
    first.processes, second.processes = [(int(pid), 2**30)], []
    with installed(NvmlStub([first, second])):
        from fleetpulse.__main__ import main

        main()
