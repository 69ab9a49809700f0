"""Programs made ready to run, and eager execution by them."""
