"""What fleetpulse costs and how fast it is, measured beside yardsticks in the same run (``fleetpulse bench``)."""
