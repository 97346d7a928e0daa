"""The dashboard: reading only, on this machine only, for people who hold the token."""
