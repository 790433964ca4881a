"""`python -m trainsmith_worker FD`: the zygote, speaking on the inherited socket FD."""

from __future__ import annotations

import socket
import sys

from .quick import light_imports, remember_signatures

with light_imports():
    import verifiers.v1  # noqa: F401 - imported here for its stand-ins

    from .strict import refuse_what_is_no_number
    from .zygote import Zygote

remember_signatures()
refuse_what_is_no_number()
Zygote(socket.socket(fileno=int(sys.argv[1]))).run()
