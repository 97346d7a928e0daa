"""A progress line for long work; it is the coordinator's, and estimators show theirs the same way."""

from colonnade.coordinator.driver import progress_bar

__all__ = ["progress_bar"]
