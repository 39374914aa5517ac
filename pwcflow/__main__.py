"""Where the command `pwcflow` begins; `python -m pwcflow` is the same."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; an interruption ends it in one line from the first moment on."""
    try:
        from pwcflow.cli import main as run

        run()
    except KeyboardInterrupt:  # of what comes before a command: that tells it itself
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":  # processes that training starts import this module too
    main()
