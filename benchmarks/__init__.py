"""Benchmarks of Colonnade. They are part of the source checkout, not of the installed package."""
