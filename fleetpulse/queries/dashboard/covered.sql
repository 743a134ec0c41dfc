-- How much of the range has data: the windows in which anything reported, whatever the filters, and gaps up to 5 min.
-- rows: 2
-- seconds: 5
-- kept: 2
SELECT covered_ms
FROM covered_time(from_ms = {from_ms:Int64}, to_ms = {to_ms:Int64})
