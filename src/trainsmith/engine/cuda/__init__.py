"""The engine's path on a CUDA GPU: Triton kernels, static caches and captured graphs.

Nothing here is imported on a machine without a GPU, save by tests that run the kernels in Triton's
interpreter.
"""
