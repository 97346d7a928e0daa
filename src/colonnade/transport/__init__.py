"""How requests and replies travel."""
