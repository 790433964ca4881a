"""Where jobs run. `local` runs them in this process, one at a time; each identity is trained once."""
