-- Written by `make migration`. Read it, change it where you know better, and commit it.

ALTER TABLE producer_books
    ADD COLUMN IF NOT EXISTS clock_skew_ms SimpleAggregateFunction(anyLast, Nullable(Int64)) CODEC(ZSTD(1)) COMMENT 'the host\'s clock less the broker\'s, by acknowledgements; null: not known [ms]' AFTER seq_events;
