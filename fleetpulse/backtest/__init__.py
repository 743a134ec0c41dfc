"""Rules over what was: history in ClickHouse, a CSV of one series, a directory of labelled series."""
