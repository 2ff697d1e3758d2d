"""``python -m nodewright`` is the command ``nodewright``."""

from nodewright.cli.main import main

main()
