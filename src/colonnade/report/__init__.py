"""Receipts, plots and the privacy report."""
