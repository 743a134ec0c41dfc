"""The simulated fleet: hosts, GPUs and engines on virtual time, seeded, with the exact truth of all it emits.

``fleet.Fleet(plan, seed).steps(from_ms, to_ms)`` is pure; ``run.simulate`` paces it in real time and publishes.
"""
