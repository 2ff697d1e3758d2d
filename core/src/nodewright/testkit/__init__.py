"""PUBLIC: what plugin authors and simulations test with."""
