"""The audit of money over a simulated day: faults, late data, killed jobs, shared GPUs."""
