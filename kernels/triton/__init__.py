"""The Triton kernels of a GPU: same names, same signatures as their torch twins one level up."""
