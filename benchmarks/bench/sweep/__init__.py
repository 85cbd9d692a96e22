"""`lookhear bench sweep`: a grid of loads, one page of results."""
