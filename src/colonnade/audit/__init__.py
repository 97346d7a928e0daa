"""Audits that try to refute a privacy claim, and a second computation of a ledger's total."""
