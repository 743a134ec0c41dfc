ALTER TABLE llm_requests MODIFY SETTING auto_statistics_types = '';

ALTER TABLE gpu_samples MODIFY SETTING auto_statistics_types = '';

ALTER TABLE gpu_events MODIFY SETTING auto_statistics_types = '';

ALTER TABLE host_samples MODIFY SETTING auto_statistics_types = '';

ALTER TABLE engine_samples MODIFY SETTING auto_statistics_types = '';

ALTER TABLE gpu_processes MODIFY SETTING auto_statistics_types = '';

ALTER TABLE host_devices MODIFY SETTING auto_statistics_types = '';

ALTER TABLE engine_events MODIFY SETTING auto_statistics_types = '';

ALTER TABLE llm_requests_partials MODIFY SETTING auto_statistics_types = '', merge_max_block_size = 65536;

ALTER TABLE gpu_samples_partials MODIFY SETTING auto_statistics_types = '', merge_max_block_size = 65536;

ALTER TABLE gpu_events_partials MODIFY SETTING auto_statistics_types = '', merge_max_block_size = 65536;

ALTER TABLE host_samples_partials MODIFY SETTING auto_statistics_types = '', merge_max_block_size = 65536;

ALTER TABLE engine_samples_partials MODIFY SETTING auto_statistics_types = '', merge_max_block_size = 65536;
