"""Algorithms that the coordinator runs: each lists its steps and yields rounds of requests."""
