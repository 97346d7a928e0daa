"""The dashboard: read-only pages on this machine, for people who have the token."""
