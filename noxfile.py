"""Tests on every supported Python that this machine has; the others are named as untested. ``pipx run nox``."""

import nox

nox.options.error_on_missing_interpreters = False  # a missing one is reported as skipped
nox.options.sessions = ["tests"]


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """The tests, in an environment of their own."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-q", "-n", "3", "--dist", "worksteal", *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13"])
def wheel(session: nox.Session) -> None:
    """Build, check and install the wheel into an environment without the checkout, and run the README's example there."""
    session.install("build", "twine")
    folder = session.create_tmp()
    session.run("python", "-m", "build", "--outdir", folder)
    session.run("bash", "-c", f"twine check --strict {folder}/*")
    session.run("bash", "-c", f"pip install --quiet {folder}/*.whl")
    session.run("python", "packaging/quickstart.py")
