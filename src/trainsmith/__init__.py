"""trainsmith: run, measure and train agents that write RL training jobs."""

__version__ = "0.1.0"
