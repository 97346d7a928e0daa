"""Tests and distributions on every supported Python that this machine has; the others are reported as skipped. ``pipx run nox``.

``nox -s tests-3.13 -- tests/privacy tests/protocol`` runs a part of the tests.
"""

import nox

PYTHONS = ["3.11", "3.12", "3.13"]
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["tests"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests, in an environment of their own."""
    session.install("-c", "requirements/tested.txt", "-e", ".[dev]")
    session.run("pytest", "-q", "-n", "3", "--dist", "worksteal", *session.posargs)


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """Build and check the distributions; the wheel runs the README's example in a clean environment."""
    session.run("make", "dist", "PYTHON=python", external=True)
