"""The report of money: what a range cost, what it was spent on, and where each price is written."""

from pathlib import Path

EXAMPLE_PRICES = Path(__file__).parents[1] / "data" / "prices" / "example.yaml"
"""The prices that jobs and report use where none are given: nobody's."""
BY_EXAMPLES = "Rated with example prices, which nobody charges: name your file as `prices` of the configuration."
