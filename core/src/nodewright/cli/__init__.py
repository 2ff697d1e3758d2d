"""The command line: reads settings, builds the parts of a process, and prints results."""
