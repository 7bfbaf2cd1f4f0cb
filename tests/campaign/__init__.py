"""Hostile tries by the thousand, each made from its number: `python -m tests.campaign --help`."""
