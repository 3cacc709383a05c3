"""``python -m linkwise``."""

from linkwise.cli.main import main

main()
