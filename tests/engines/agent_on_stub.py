"""``fleetpulse agent`` on the NVML stub of the tests: one GPU, on which one process computes.

    python -m tests.engines.agent_on_stub SPOOL PID ORDERS

A number written to the file ORDERS is an XID that the GPU reports at once; the file is removed then.
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
        if orders.exists() and (text := orders.read_text().strip()):
            orders.unlink()
            stub.events.put((stub.gpus[0], XID_EVENT, int(text)))
        time.sleep(0.05)


def main(spool: Path, pid: int, orders: Path) -> None:
    (gpu,) = gpus(1)
    gpu.processes, gpu.process_samples = [(pid, MEMORY_BYTES)], [(pid, 1, 83)]
    stub = NvmlStub([gpu])
    threading.Thread(target=follow, args=(orders, stub), daemon=True).start()
    with installed(stub):
        run_agent_service(spool, None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
