"""PUBLIC: frozen values that every room speaks of; imports nothing of nodewright."""
