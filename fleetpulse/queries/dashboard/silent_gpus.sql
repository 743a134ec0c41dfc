-- Time without a reading of GPUs of the inventory, by type: no bill has it; what it costs at the price of the type.
-- rows: 500
-- kept: 60
SELECT
    of_model AS gpu_model,
    sum(silent) AS silent_gpu_ms,
    sum(toInt128(nusd)) AS unobserved_nusd
FROM
(
    SELECT gpu_model AS of_model, silent_gpu_ms AS silent, unobserved_nusd AS nusd
    FROM gpu_coverage(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})
    WHERE {region:String} = '' OR region = {region:String}
)
GROUP BY gpu_model
ORDER BY gpu_model
LIMIT 500
