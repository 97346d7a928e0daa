"""``python -m colonnade.cli``: the command line where no script is installed."""

from colonnade.cli import app

if __name__ == "__main__":
    app(prog_name="colonnade")
