"""`python -m pwcflow` is `pwcflow`."""

from pwcflow.cli import main

if __name__ == "__main__":  # processes that training starts import this module too
    main()
