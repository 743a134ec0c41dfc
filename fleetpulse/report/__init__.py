"""The report of money: what a range cost, what it was spent on, and where each price is written."""
