"""Cryptography without input or output: residues, shares, keys and sealed letters."""
