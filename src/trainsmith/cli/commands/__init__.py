"""One module a command; each has `run(invocation) -> exit status`."""
