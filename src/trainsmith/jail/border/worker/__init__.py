"""The jailed side of the border: imports verifiers and the author's package, plays rollouts, asks for tokens.

The folder is mounted (or copied) into the jail as the package `trainsmith_worker`; it imports nothing of
trainsmith, and the trusted side imports only `frames`, `schema` and `messages` from it.
"""
