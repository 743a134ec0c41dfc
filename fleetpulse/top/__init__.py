"""``fleetpulse top``: the fleet in a terminal."""
