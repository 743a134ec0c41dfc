"""What the doctor saw, as data. None: it could not be seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetpulse.migrate.table_plan import LiveDatabase
from fleetpulse.sql.reader_profile import Setting
from fleetpulse.stack.report import PartStatus

TopicPartition = tuple[str, int]
"""Topic and partition."""
AGED_MS = 20_000
"""A record that waits for so long for a reader that runs is behind; jobs, sink and deliver commit every few seconds.
Low enough for an alert that no target takes to be named within a minute of the fault."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """From where on something is wrong."""

    disk_free_bytes_min: int = 2 * 1024**3
    data_dir_free_share: float = 0.1
    """Of the data folder's disk as much is enough: a spool's volume, or what a container has in memory, is small."""
    lag_records_max: int = 10_000
    """Records, each a batch of up to 1,000 events, over all partitions of a topic."""
    skew_ms_max: int = 1_000
    """Between two clocks. Events are judged late and future by the broker's."""
    within_s: float = 20.0
    """The longest one look may take; what has not answered by then is wrong."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic. ``replicas`` are those of the partition that has fewest."""

    partitions: int
    replicas: int
    without_leader: tuple[int, ...]
    under_replicated: tuple[int, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One consumer group: members now, and offsets it ever committed. ``answered``: whether the broker that coordinates
    it has said so; else nothing is known of it."""

    members: int
    committed: Mapping[TopicPartition, int]
    answered: bool = True


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """``addresses``: why an address takes no connection, None where it does. ``error``: why the cluster gives no answer
    although one does; ``key``: the setting behind that. ``held_up``: partitions whose readers wait for an open
    transaction, with the records behind it. ``skew_ms``: the broker's clock minus this host's."""

    bootstrap: str
    addresses: Mapping[str, str | None]
    error: str | None = None
    key: str | None = None
    brokers: int = 0
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, TopicFacts] | None = None
    hidden: frozenset[str] = frozenset()
    """Topics that this login may not ask about."""
    log_ids: frozenset[str] | None = None
    topic_prefix: str = ""
    deployment: str | None = None
    """The one that the contract names."""
    foreign: bool = False
    """It is not the configured one."""
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    aged: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets below which everything was appended longer ago than ``AGED_MS``."""
    held_up: Mapping[TopicPartition, int] | None = None
    groups: Mapping[str, GroupFacts | None] | None = None
    """By name; None for a group that this login may not ask about."""
    skew_ms: int | None = None
    transaction_error: str | None = None
    """Why a transactional producer gets no id; None: it gets one, or none was wanted."""
    transaction_denied: bool = False
    """It gets none because this login may not have one: only jobs need that right."""
    access_lists: bool | None = None
    """Whether the brokers have any; None: this login may not ask."""
    shared_logins: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By principal a topic of events and one of results, which it may both write."""


@dataclass(frozen=True, slots=True)
class LoginFacts:
    """One login to ClickHouse. ``error``: why it is rejected or has no answer; ``proven``: not rejected for want of a
    password or a certificate; ``slow_s``: it is let in, and a look took longer; ``key``: the setting behind the error,
    within its section. ``can``: rights on the database. ``settings``: value and greatest value of what limits people's
    SQL; ``sources``: outside the server what it may read, such as URL. ``sharded``: its tables are over shards."""

    user: str
    database: str
    error: str | None = None
    error_code: int | None = None
    proven: bool = True
    slow_s: float | None = None
    key: str | None = None
    readonly: int | None = None
    can: Mapping[str, bool] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    sharded: bool = False


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """A certificate at a setting: its file, or the server that shows it, and when it ends, in seconds since 1970."""

    key: str
    place: str
    ends_s: float


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """A disk and what is left on it. ``server``: whose it is, where there are several."""

    name: str
    free_bytes: int
    total_bytes: int
    server: str = ""


@dataclass(frozen=True, slots=True)
class PartFacts:
    """A part that cannot be read, and why. ``detached``: ClickHouse took it out, at a start or at a check."""

    table: str
    part: str
    why: str
    detached: bool
    server: str = ""


@dataclass(frozen=True, slots=True)
class MutationFacts:
    """A mutation that is not done. ``failed``: why its last attempt failed, empty where none did."""

    table: str
    id: str
    command: str
    parts: int
    failed: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """``live``: tables, views and applied migrations. ``skew_ms``: the server's clock minus this host's."""

    url: str
    writer: LoginFacts
    reader: LoginFacts | None
    """None: no login of its own is configured."""
    unset: bool = False
    """No server is configured or found here, as on hosts of edges; the writer's error says where was looked."""
    version: str | None = None
    exists: bool | None = None
    live: LiveDatabase | None = None
    skew_ms: int | None = None
    disks: tuple[DiskFacts, ...] = ()
    broken: tuple[PartFacts, ...] | None = None
    """Parts that could not be read in the last minutes, or were taken out; None: not known."""
    mutations: tuple[MutationFacts, ...] | None = None
    """Those that are not done; None: not known."""
    joins: tuple[Mapping[str, Any], ...] | None = None
    """Rows of the query ``joins`` over the last minutes."""
    joins_newest: tuple[Mapping[str, Any], ...] | None = None
    """The same over the newest windows, which ``joins`` leaves out."""
    overflow: tuple[Mapping[str, Any], ...] | None = None
    """Rows of the query ``pipeline_overflow`` over the last minutes."""
    rejected: tuple[Mapping[str, Any], ...] | None = None
    """Rows of the query ``pipeline_rejected`` over the last minutes."""
    clocks: tuple[Mapping[str, Any], ...] | None = None
    """Rows of the query ``pipeline_clocks`` over the last minutes."""
    prices_versions: tuple[str, ...] = ()
    """Of the bills of the last hour, the newest first."""
    measured_twice: tuple[str, ...] | None = None
    """Hosts that several agents measure; None: not known."""
    servers: Mapping[str, LiveDatabase] = field(default_factory=dict)
    """Where there are several: the database as it is on each, by the server's name, that of ``live`` among them."""
    one_by_one: bool = False
    """Whether each of these is migrated by itself: copies, and servers of a database that is not replicated."""
    servers_error: str | None = None
    """Why that is not known."""
    others_error: str | None = None
    """Why disks, parts and mutations of other servers are not known."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """This machine. ``stack`` is None where no local stack is wanted; ``taken``: ports of parts that are down and that
    somebody else has."""

    data_dir: Path
    disk: DiskFacts | None
    stack: tuple[PartStatus, ...] | None = None
    java_error: str | None = None
    taken: tuple[tuple[str, int], ...] = ()
    open_secrets: tuple[Path, ...] = ()
    """Files with passwords that others than their owner, and a group of ours, can reach."""
    group_secrets: frozenset[Path] = frozenset()
    """Those of them that we ourselves read as one of their group."""
