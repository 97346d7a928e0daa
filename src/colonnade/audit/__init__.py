"""Distinguishing audits and second opinions, for users and for our own tests alike."""
