"""`lookhear bench`: servers measured from outside, ours or anybody's."""
