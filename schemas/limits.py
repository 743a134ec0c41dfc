"""Every default and every limit, in one table, and the relations that must hold between them.

A limit is configured by its name (``FLEETPULSE_LIMITS__NAME`` or ``[limits]`` in ``fleetpulse.toml``). What happens
when it is reached is said beside it. ``check`` names the relation that does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import ConfigError

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

WINDOW_MS = 10 * SECOND_MS
"""The grain: tumbling windows, ``[start, start + WINDOW_MS)`` of event time."""

DERIVED_SETTLE_MS = 2 * MINUTE_MS
"""So long after a minute its bills and books are in the tables, when nothing lags: what is younger is left alone, or
read from finer rows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Names end in their unit. Reached limits are counted, never silent."""

    # one record
    batch_events_max: int = 1_000  # more: the record is rejected (too_many)
    record_bytes_max: int = 8 * 1024 * 1024  # more: rejected (too_large); our producers cut before
    batch_bytes_max: int = 128 * 1024 * 1024  # a packed Kafka batch unpacks to more: all of it is rejected (too_large)
    label_bytes_max: int = 256  # longer: the event is rejected (too_long)
    text_bytes_max: int = 4_096  # longer: the event is rejected (too_long)
    rejected_bytes_kept_max: int = 16_384  # of the bytes kept with a rejected record; the rest is cut off

    # time
    out_of_orderness_ms: int = 2 * SECOND_MS  # the watermark trails event time by this
    future_skew_ms: int = 5 * SECOND_MS  # newer than the append time by more: future
    allowed_lateness_ms: int = 6 * HOUR_MS  # older than the append time by more: late
    hot_ms: int = 2 * MINUTE_MS  # finals are emitted again for this long
    final_wait_ms: int = 30 * SECOND_MS  # a window waits so long for sources that are silent, then it is incomplete
    edge_linger_ms: int = 1 * SECOND_MS  # the longest an event waits for its batch
    network_delay_ms: int = 500  # edge to broker, usual
    outage_ms: int = 12 * HOUR_MS  # longest outage of a job or sink that loses nothing

    # series
    process_series_max: int = 3_000_000  # of all partitions; each has a part, later ones fall into __other__
    series_max: int = 100_000  # at most, per grouping set and partition; later ones fall into __other__
    tenant_series_max: int = 100_000  # that a tenant's requests open, in all partitions; later ones fall into __other__
    label_cardinality_max: int = 200_000  # distinct values per dimension and partition; later ones read __other__
    tenant_label_cardinality_max: int = 1_000  # of those, models or SLO classes first named by one tenant

    # edge
    spool_bytes_max: int = 1024 * 1024 * 1024  # full: events never handed to the sender are shed and declared
    spool_age_ms: int = 5 * HOUR_MS  # an outage that is shorter makes no event late; nothing is given up by age
    source_expiry_ms: int = 48 * HOUR_MS  # dedup state of a silent source is forgotten

    # kept in Kafka and ClickHouse
    source_retention_ms: int = 24 * HOUR_MS
    partials_retention_ms: int = 24 * HOUR_MS
    offsets_retention_ms: int = 7 * DAY_MS
    raw_ttl_ms: int = 7 * DAY_MS
    partials_ttl_ms: int = 30 * DAY_MS
    rollup_ttl_ms: int = 400 * DAY_MS
    costs_ttl_ms: int = 730 * DAY_MS

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int) or value <= 0:
                raise ConfigError(f"limits.{name}", value, "must be a whole number above 0")
        self.check()

    def check(self) -> None:
        """Raise ``ConfigError`` with the first relation that does not hold; return None when all do."""
        for key, holds, bound in self._relations():
            if not holds:
                raise ConfigError(f"limits.{key}", getattr(self, key), bound)

    def kept_from_ms(self, now_ms: int) -> int:
        """Since when rows of 10 s are kept [ms]; before that there are those of a minute and longer alone."""
        return now_ms - self.partials_ttl_ms

    def _relations(self) -> tuple[tuple[str, bool, str], ...]:
        return (
            ("batch_bytes_max", self.batch_bytes_max >= 2 * self.record_bytes_max,
             "must be at least twice record_bytes_max, else a batch of one good record may be refused"),
            ("out_of_orderness_ms", self.out_of_orderness_ms >= self.edge_linger_ms + self.network_delay_ms,
             "must be at least edge_linger_ms + network_delay_ms, else punctual events miss their final"),
            ("hot_ms", self.hot_ms >= self.out_of_orderness_ms + self.network_delay_ms,
             "must be at least out_of_orderness_ms + network_delay_ms"),
            ("final_wait_ms", self.final_wait_ms >= self.out_of_orderness_ms,
             "must be at least out_of_orderness_ms, else windows are closed before any source has passed them"),
            ("allowed_lateness_ms", self.allowed_lateness_ms >= self.spool_age_ms,
             "must be at least spool_age_ms, else spooled events arrive late"),
            ("source_retention_ms", self.source_retention_ms >= self.allowed_lateness_ms + self.outage_ms,
             "must be at least allowed_lateness_ms + outage_ms, else a long outage loses events"),
            ("partials_retention_ms", self.partials_retention_ms >= self.outage_ms + self.hot_ms,
             "must be at least outage_ms + hot_ms"),
            ("raw_ttl_ms", self.raw_ttl_ms >= self.allowed_lateness_ms + self.source_retention_ms,
             "must be at least allowed_lateness_ms + source_retention_ms, else a re-send lands twice"),
            ("partials_ttl_ms", self.partials_ttl_ms >= self.source_retention_ms + 2 * DAY_MS,
             "must be at least source_retention_ms + 2 days, else rollups of what comes late are not computed, and"
             " reconcile has nothing to compare"),
            ("rollup_ttl_ms", self.rollup_ttl_ms >= self.partials_ttl_ms,
             "must be at least partials_ttl_ms, else rollups go before what they are computed from"),
            ("costs_ttl_ms", self.costs_ttl_ms >= self.partials_ttl_ms,
             "must be at least partials_ttl_ms, else bills go before the usage behind them"),
            ("source_expiry_ms", self.source_expiry_ms > self.spool_age_ms,
             "must be above spool_age_ms, else a re-send is not recognised"),
            ("offsets_retention_ms", self.offsets_retention_ms > self.outage_ms,
             "must be above outage_ms, else a job forgets where it was"),
        )  # fmt: skip


DEFAULT_LIMITS = Limits()
