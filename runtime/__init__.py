"""What every process needs: config, clock, retry, counters, health, logging."""
