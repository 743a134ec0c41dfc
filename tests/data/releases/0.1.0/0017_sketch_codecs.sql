ALTER TABLE llm_requests_rollup_1m MODIFY COLUMN ttft_us_bins CODEC(LZ4), MODIFY COLUMN tpot_us_bins CODEC(LZ4), MODIFY COLUMN e2e_us_bins CODEC(LZ4), MODIFY COLUMN queue_us_bins CODEC(LZ4), MODIFY COLUMN itl_bins CODEC(LZ4);

ALTER TABLE llm_requests_rollup_1h MODIFY COLUMN ttft_us_bins CODEC(LZ4), MODIFY COLUMN tpot_us_bins CODEC(LZ4), MODIFY COLUMN e2e_us_bins CODEC(LZ4), MODIFY COLUMN queue_us_bins CODEC(LZ4), MODIFY COLUMN itl_bins CODEC(LZ4);

ALTER TABLE llm_requests_rollup_1d MODIFY COLUMN ttft_us_bins CODEC(LZ4), MODIFY COLUMN tpot_us_bins CODEC(LZ4), MODIFY COLUMN e2e_us_bins CODEC(LZ4), MODIFY COLUMN queue_us_bins CODEC(LZ4), MODIFY COLUMN itl_bins CODEC(LZ4);
