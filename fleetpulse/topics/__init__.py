"""Topics for people: ``fleetpulse tail`` and the dead-letter topic."""
