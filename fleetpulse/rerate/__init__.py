"""``fleetpulse rerate``: costs computed again from stored windows, with other prices."""
