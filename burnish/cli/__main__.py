"""`python -m burnish.cli` is `burnish`."""

from burnish.cli import main

main()
