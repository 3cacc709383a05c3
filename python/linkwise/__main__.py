"""``python -m linkwise``."""

from linkwise.cli import main

main()
