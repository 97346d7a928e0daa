"""The private rows: where they are read from, how they are encoded, in which order they stand."""
