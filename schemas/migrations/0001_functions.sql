CREATE OR REPLACE FUNCTION fp_bin_value AS (bin) -> if(bin = -1, 0., 2 * pow(2, bin / 32) / (pow(2, 1 / 32) + 1));

CREATE OR REPLACE FUNCTION fp_quantile AS (q, bins) -> if(empty(bins), NULL, fp_bin_value(mapKeys(bins)[arrayFirstIndex(seen -> seen > floor(q * (arraySum(mapValues(bins)) - 1)), arrayCumSum(mapValues(bins)))]));

CREATE OR REPLACE FUNCTION fp_quantiles AS (qs, bins) -> arrayMap(one -> fp_quantile(one, bins), qs);
