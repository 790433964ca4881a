"""The engine as a server on this machine: one base model, trained and sampled by unmodified clients.

`trainsmith engine serve --base ID` runs it. Beneath are the host (`host.py`, the one torch thread) and the
store (`store.py`, what survives a restart); above them one package for each protocol, and `app.py`, which
puts them behind one token. Only the host imports torch.
"""
