ALTER TABLE llm_requests ADD INDEX IF NOT EXISTS by_request_id request_id TYPE bloom_filter(0.01) GRANULARITY 1, ADD INDEX IF NOT EXISTS by_trace_id trace_id TYPE bloom_filter(0.01) GRANULARITY 1;
