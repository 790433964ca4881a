"""Triton kernels, each with the function that launches it on tensors of any supported size."""
