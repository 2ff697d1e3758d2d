"""The subcommands, one file each. They read arguments and options; other packages do the work."""
