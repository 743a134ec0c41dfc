"""Stream jobs: steps folded over topics by a runner (Faust, Kafka transactions)."""
