"""Keep: land topics in ClickHouse, at least once and idempotent."""
