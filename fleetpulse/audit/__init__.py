"""The audit of money: a day of a fleet, or the live tables, checked in SQL to the nano-dollar."""
