"""The daemon that ``nodewright run`` builds and runs, and the pages from which other commands read."""
