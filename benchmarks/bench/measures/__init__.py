"""What a session's trace says: latencies, errors, and what they add up to. Pure functions."""
