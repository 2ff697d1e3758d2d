"""Virtual machine scale sets of Azure as node groups of nodewright."""
