"""The publisher: events through the spool to Kafka."""
