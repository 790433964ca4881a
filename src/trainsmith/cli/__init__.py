"""The command line. Each command is a module of `commands`; `main` finds and runs it."""
