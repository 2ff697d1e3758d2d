"""Many simulations: settings × scenarios × seeds, run in parallel, kept, compared and drawn."""
