"""Tests of `colonnade.papers`: the package itself, and the methods that papers brought."""
