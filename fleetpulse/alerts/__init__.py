"""``fleetpulse alerts``: open and past alerts, silences, markers, and what an alert touched."""
