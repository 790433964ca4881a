"""Where in the author's own files something went wrong: `environment/arith/__init__.py:12: code`."""

from __future__ import annotations

import linecache
import os
import re
import traceback
from types import FrameType

FOLDER = os.environ.get("TRAINSMITH_JAIL", "") + "/environment/"
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def of_error(error: BaseException) -> str:
    """The innermost line of the author's files that an exception passed; "" when there is none."""
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(FOLDER):
        return _line(error.filename, error.lineno or 0)
    seen: set[int] = set()
    current: BaseException | None = error
    found = ""
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        for frame, number in traceback.walk_tb(current.__traceback__):
            if frame.f_code.co_filename.startswith(FOLDER):
                found = _line(frame.f_code.co_filename, number)
        current = current.__cause__ or current.__context__
    return found


def of_text(text: str | None) -> str:
    """The same, from a printed traceback."""
    places = [match for match in _FRAME.finditer(text or "") if match[1].startswith(FOLDER)]
    return _line(places[-1][1], int(places[-1][2])) if places else ""


def of_frame(frame: FrameType | None) -> str:
    """The innermost line of the author's files on a running stack, else the innermost line of all."""
    innermost = frame
    while frame is not None:
        if frame.f_code.co_filename.startswith(FOLDER):
            return _line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return "" if innermost is None else f"{innermost.f_code.co_filename}:{innermost.f_lineno}"


def _line(filename: str, number: int) -> str:
    source = linecache.getline(filename, number).strip()
    path = "environment/" + filename.removeprefix(FOLDER)
    return f"{path}:{number}: {source[:200]}" if source else f"{path}:{number}"
