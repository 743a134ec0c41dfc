"""Understand: steps folded over topics, hosted by Faust with Kafka transactions."""
