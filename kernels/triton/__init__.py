"""The Triton kernels of a GPU: same names, same signatures as their torch twins one level up.

Numbers that change from step to step (tokens, rows) are not specialised: Triton would compile a
kernel anew for 1, for multiples of 16 and for the rest. Widths are: what a mask compares with must
be known to be a multiple of 16, or loads are of one element each.
"""
