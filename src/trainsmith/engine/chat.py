"""Chat messages to tokens and back, without any text ever becoming a control token.

The model's own template is rendered (in Jinja's sandbox, as transformers does), cut at its control tokens,
and the pieces between are encoded as plain text. Control tokens that stand in a message's text are hidden
from that cut, so `<|im_end|>` typed by a user is a few ordinary tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from trainsmith.errors import UserError
from trainsmith.records import Message

_PRIVATE_USE = range(0xE000, 0xF8FF)
_REPLY = "reply"


class ChatTokenizer:
    """The tokenizer of one model directory together with its chat template."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: str,
        stop_tokens: frozenset[int],
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`names` are the control tokens that a template may print by name, as `bos_token`."""
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(template)
        control = {
            token.content: index
            for index, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        self._control = control
        longest_first = sorted(control, key=len, reverse=True)
        self._cut = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._names = names
        self.stop_tokens = stop_tokens

    @classmethod
    def load(cls, model_dir: Path) -> ChatTokenizer:
        """Read tokenizer, chat template and stop tokens. Raises UserError when one is missing."""
        file = model_dir / "tokenizer.json"
        if not file.exists():
            raise UserError(
                "no tokenizer.json", where=str(model_dir), fix="name a model with a fast tokenizer"
            )
        tokenizer, template = Tokenizer.from_file(str(file)), _read_template(model_dir)
        return cls(tokenizer, template, _read_stop_tokens(model_dir), _read_names(model_dir))

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The conversation with the prompt for the model's next turn; thinking is off."""
        return self._encode(self._render(messages, _escape_mark(messages)), _escape_mark(messages))

    def encode_reply_tail(self, messages: Sequence[Message], *, stopped: bool = True) -> tuple[int, ...]:
        """What follows a sampled reply when `messages` come next, up to the prompt for the next reply.

        The reply's stop token belongs to the sample; one that was cut off gets it here with `stopped=False`.
        """
        mark = _escape_mark(messages)
        reply = mark + _REPLY + mark
        before = [Message(role="user", content=_REPLY), Message(role="assistant", content=reply)]
        rendered = self._render([*before, *messages], mark, keep=reply)
        tail = rendered.partition(reply)[2]
        stop = self._cut.match(tail)
        if stop is None:
            raise UserError(
                "the chat template does not end a turn with a control token", where="chat template"
            )
        return self._encode(tail[stop.end() if stopped else 0 :], mark)

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Plain text; no control tokens."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, control tokens left out."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _render(self, messages: Sequence[Message], mark: str, keep: str = "") -> str:
        turns = [
            {"role": m.role, "content": m.content if m.content == keep else self._hide(m.content, mark)}
            for m in messages
        ]
        try:
            return self._template.render(
                messages=turns, add_generation_prompt=True, enable_thinking=False, **self._names
            )
        except jinja2.TemplateError as error:
            raise UserError(f"the chat template refuses these messages: {error}", where="messages") from error

    def _hide(self, text: str, mark: str) -> str:
        """Break every control token's text, also one that the template might complete."""
        text = self._cut.sub(lambda match: match.group()[0] + mark + match.group()[1:], text)
        for token in self._control:
            for size in range(len(token) - 1, 0, -1):
                if text.endswith(token[:size]):
                    return text[: len(text) - size + 1] + mark + text[len(text) - size + 1 :]
        return text

    def _encode(self, rendered: str, mark: str) -> tuple[int, ...]:
        ids: list[int] = []
        at = 0
        for match in self._cut.finditer(rendered):
            ids += self.encode_text(rendered[at : match.start()].replace(mark, ""))
            ids.append(self._control[match.group()])
            at = match.end()
        ids += self.encode_text(rendered[at:].replace(mark, ""))
        return tuple(ids)


def _escape_mark(messages: Sequence[Message]) -> str:
    """A private-use character that no message contains."""
    used = set().union(*(message.content for message in messages))
    for code in _PRIVATE_USE:
        if chr(code) not in used:
            return chr(code)
    raise UserError("a message uses every private-use character", where="messages")


def _read_template(model_dir: Path) -> str:
    file = model_dir / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    config = _read_json(model_dir / "tokenizer_config.json")
    template = config.get("chat_template")
    if not isinstance(template, str):
        raise UserError("no chat template", where=str(model_dir), fix="use an instruct model")
    return template


def _read_names(model_dir: Path) -> dict[str, str]:
    """`bos_token` and the like, each a string or an object with the string in it."""
    config = _read_json(model_dir / "tokenizer_config.json")
    found = {name: config.get(name) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    texts = {name: token["content"] if isinstance(token, dict) else token for name, token in found.items()}
    return {name: text or "" for name, text in texts.items()}


def _read_stop_tokens(model_dir: Path) -> frozenset[int]:
    """The end-of-sequence ids of the generation config, else of the model config."""
    for name in ("generation_config.json", "config.json"):
        stop = _read_json(model_dir / name).get("eos_token_id")
        if stop is not None:
            return frozenset(stop if isinstance(stop, list) else [stop])
    raise UserError("no eos_token_id", where=str(model_dir / "config.json"))


def _read_json(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
