"""The local engine: one decoder-only model, sampled and trained, on the CPU or one GPU.

Importing this package is free of torch; `policy`, `learner` and what they rest on are not. How OpenMP's
threads wait for each other is settled here, since they read it when torch is first imported; so is the
workspace without which cuBLAS does not repeat its results.
"""

import os

from trainsmith.engine.waiting import settle_waiting

settle_waiting()
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
