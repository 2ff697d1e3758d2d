"""The daemon that ``nodewright run`` builds and runs, and the pages by which other commands ask it."""
