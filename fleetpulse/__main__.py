"""``python -m fleetpulse`` is the command ``fleetpulse``."""

from fleetpulse.cli import main

if __name__ == "__main__":
    main()
