"""The subcommands, one file each: they read what was given, and leave the work to the other rooms."""
