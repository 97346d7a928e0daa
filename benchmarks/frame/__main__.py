"""Run one benchmark: ``python -m benchmarks.frame NAME [--quick | --record | --check]``."""

import sys

from benchmarks.frame.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
