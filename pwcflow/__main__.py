"""`python -m pwcflow` is `pwcflow`."""

from pwcflow.cli import main

main()
