"""Trees of files as the kernel's adapters show them: names and units of Documentation/ABI/stable/sysfs-class-infiniband
(Linux), of ``hw_counters`` those of mlx5 (NVIDIA) and EFA (drivers/infiniband/hw/efa/efa_verbs.c)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from producers.host.devices import Device, DevicesReading, device_rows, read_rdma
from producers.host.rdma import ERRORS, PORTS_MAX, Port, read_ports
from producers.host.sampler import HostReading, host_row

MLX5 = {
    "counters/VL15_dropped": "0",
    "counters/excessive_buffer_overrun_errors": "1",
    "counters/link_downed": "2",
    "counters/link_error_recovery": "3",
    "counters/local_link_integrity_errors": "4",
    "counters/port_rcv_constraint_errors": "0",
    "counters/port_rcv_data": "1000",
    "counters/port_rcv_errors": "5",
    "counters/port_rcv_packets": "77",
    "counters/port_rcv_remote_physical_errors": "6",
    "counters/port_rcv_switch_relay_errors": "0",
    "counters/port_xmit_constraint_errors": "0",
    "counters/port_xmit_data": "250",
    "counters/port_xmit_discards": "7",
    "counters/port_xmit_packets": "78",
    "counters/port_xmit_wait": "99",
    "counters/symbol_error": "8",
    "hw_counters/duplicate_request": "50",
    "hw_counters/implied_nak_seq_err": "10",
    "hw_counters/lifespan": "10",
    "hw_counters/local_ack_timeout_err": "20",
    "hw_counters/np_cnp_sent": "60",
    "hw_counters/out_of_buffer": "70",
    "hw_counters/out_of_sequence": "30",
    "hw_counters/packet_seq_err": "40",
    "hw_counters/req_transport_retries_exceeded": "100",
    "hw_counters/rnr_nak_retry_err": "80",
    "state": "4: ACTIVE",
    "link_layer": "InfiniBand",
}
EFA = {"hw_counters/tx_bytes": "11", "hw_counters/rx_bytes": "12", "hw_counters/tx_pkts": "1", "state": "4: ACTIVE"}
NO_PMA = {"counters/port_xmit_data": "N/A (no PMA)", "counters/symbol_error": "N/A (no PMA)"}
"""An adapter without the agent that counts (show_pma_counter in drivers/infiniband/core/sysfs.c)."""


def tree(root: Path, ports: Mapping[str, Mapping[str, str]]) -> Path:
    """``class/infiniband`` below the root."""
    for port, files in ports.items():
        adapter, number = port.split("/")
        folder = root / "class" / "infiniband" / adapter / "ports" / number
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n")
    return root


def test_every_port_counts_bytes_both_ways_and_what_went_wrong(tmp_path: Path) -> None:
    """Words of four bytes on InfiniBand and RoCE, bytes on EFA; congestion and full queues are no errors."""
    sys = tree(tmp_path, {"mlx5_0/1": MLX5, "mlx5_0/2": {"counters/port_xmit_data": "1"}, "rdmap0s6/1": EFA})

    assert read_ports(sys / "class" / "infiniband") == {
        "mlx5_0/1": Port(tx_bytes=1_000, rx_bytes=4_000, errors={name: int(MLX5[name]) for name in ERRORS}),
        "mlx5_0/2": Port(tx_bytes=4, rx_bytes=None, errors={}),
        "rdmap0s6/1": Port(tx_bytes=11, rx_bytes=12, errors={}),
    }
    assert sum(int(MLX5[name]) for name in ERRORS) == 236


def test_a_port_that_counts_nothing_is_there_and_unknown(tmp_path: Path) -> None:
    """Neither 0 nor a guess."""
    sys = tree(tmp_path, {"hfi1_0/1": NO_PMA})

    assert read_ports(sys / "class" / "infiniband") == {"hfi1_0/1": Port(None, None, {})}
    assert read_rdma(sys) == {"hfi1_0/1": Device()}


def test_ports_are_devices_of_the_host(tmp_path: Path) -> None:
    """With what they count."""
    sys = tree(tmp_path, {"mlx5_0/1": MLX5, "rdmap0s6/1": EFA})

    assert read_rdma(sys) == {
        "mlx5_0/1": Device(
            {"tx_bytes": 1_000, "rx_bytes": 4_000}, parts={"errors": {name: int(MLX5[name]) for name in ERRORS}}
        ),
        "rdmap0s6/1": Device({"tx_bytes": 11, "rx_bytes": 12}),
    }


CLEARED = {name: "0" for name in MLX5 if name.startswith("counters/")} | {"hw_counters/out_of_sequence": "33"}
"""``perfquery -R`` sets the port's own counters back, those of the driver go on."""


@pytest.mark.parametrize(
    ("later", "errors"), [(CLEARED, 3), ({"counters/symbol_error": "N/A (no PMA)", "counters/link_downed": "9"}, 7)]
)
def test_errors_are_what_each_counter_grew_by(tmp_path: Path, later: Mapping[str, str], errors: int) -> None:
    """One that was set back, or cannot be read for once, makes no errors of what the others had counted before."""
    infiniband = tree(tmp_path, {"mlx5_0/1": MLX5}) / "class" / "infiniband"
    ports, devices = [read_ports(infiniband)], [read_rdma(tmp_path)]
    tree(tmp_path, {"mlx5_0/1": later})
    ports.append(read_ports(infiniband))
    devices.append(read_rdma(tmp_path))

    samples = (HostReading(number * 1_000, rdma=found) for number, found in enumerate(ports))
    assert host_row(*samples)["rdma_errors"] == errors
    readings = (
        DevicesReading(number * 1_000, {("rdma", name): port for name, port in found.items()})
        for number, found in enumerate(devices)
    )
    assert [row["errors"] for row in device_rows(*readings)] == [errors]


def test_a_host_without_adapters_has_no_ports_and_one_with_many_has_the_first(tmp_path: Path) -> None:
    """By name."""
    assert read_ports(tmp_path / "class" / "infiniband") == {}
    many = {f"mlx5_{number:03}/1": EFA for number in range(PORTS_MAX + 1)}

    assert list(read_ports(tree(tmp_path, many) / "class" / "infiniband")) == list(many)[:PORTS_MAX]
