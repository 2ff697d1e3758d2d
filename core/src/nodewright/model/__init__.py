"""PUBLIC: the frozen values that all packages share. This package imports no other package of nodewright."""
