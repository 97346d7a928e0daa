"""The dashboard: reading only, on this machine only, for whoever holds the token."""
