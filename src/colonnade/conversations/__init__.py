"""How members talk, by channel: products on shares, sums, group keys, list matching."""
