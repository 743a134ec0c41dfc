"""``fleetpulse reconcile``: the books of producers, jobs and tables compared."""
