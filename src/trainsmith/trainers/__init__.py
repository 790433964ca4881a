"""Trainers: they run a resolved job and hand weights to the grader. `embedded` runs on the local engine."""
