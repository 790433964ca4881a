"""Grading: hidden scores before and after, their statistics, and what weights may be graded at all.

`grader` scores, `statistics` says how sure, `weights` is the allow-list, `baselines` the untrained bases,
`examples` the public replies for people to read. Not here: the reward (`trainsmith.reward`).
"""
