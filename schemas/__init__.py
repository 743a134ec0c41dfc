"""The language of fleetpulse: events, topics, codecs, verdicts, sketch, grouping sets, errors, tables.

Pure: nothing in here talks to Kafka, ClickHouse, the network or the clock.
"""
