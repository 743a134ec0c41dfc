"""``fleetpulse agent`` on the NVML stub of the tests: one GPU, on which one process computes.

    python -m tests.engines.agent_on_stub SPOOL PID ORDERS

What is written to the file ORDERS is carried out at once, and the file removed: ``xid CODE`` is an XID that the GPU
reports, ``pid PID`` the process that computes from now on, 0 none.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from fleetpulse.services.edge import run_agent_service
from tests.nvml_stub import NvmlStub, gpus, installed

XID_EVENT = 0x8
"""nvmlEventTypeXidCriticalError."""
MEMORY_BYTES = 70 * 2**30


def follow(orders: Path, stub: NvmlStub) -> None:
    while True:
        if orders.exists() and (words := orders.read_text().split()):
            orders.unlink()
            obey(stub, words[0], int(words[1]))
        time.sleep(0.05)


def obey(stub: NvmlStub, order: str, number: int) -> None:
    (gpu,) = stub.gpus
    if order == "xid":
        stub.events.put((gpu, XID_EVENT, number))
    else:
        gpu.processes = [(number, MEMORY_BYTES)] if number else []
        gpu.process_samples = [(number, 1, 83)] if number else []


def main(spool: Path, pid: int, orders: Path) -> None:
    stub = NvmlStub(gpus(1))
    obey(stub, "pid", pid)
    threading.Thread(target=follow, args=(orders, stub), daemon=True).start()
    with installed(stub):
        run_agent_service(spool, None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
