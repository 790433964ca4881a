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
from jinja2 import meta
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, decoders

from trainsmith.engine import hermes
from trainsmith.engine.conversation import Tool, Turn
from trainsmith.errors import UserError
from trainsmith.records import Message

_PRIVATE_USE = range(0xE000, 0xF8FF)
_REPLY = "reply"


def _byte_letters() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the others follow from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(rest)}


_BYTE_OF_LETTER = _byte_letters()


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
        self._knows_tools = "tools" in meta.find_undeclared_variables(environment.parse(template))
        control = {
            token.content: index
            for index, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        self._control = control
        self._added = frozenset(tokenizer.get_added_tokens_decoder())
        self._byte_level = isinstance(tokenizer.decoder, decoders.ByteLevel)
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
        return self._encode_json([{"role": each.role, "content": each.content} for each in messages])

    def encode_conversation(self, turns: Sequence[Turn], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """As `encode_chat`, with tools; as text in Hermes's form where the template knows none."""
        if not self._knows_tools:
            turns, tools = hermes.written_out(turns, tools), ()
        return self._encode_json(
            [_turn_json(turn) for turn in turns], [json.loads(tool.declaration) for tool in tools]
        )

    def encode_reply_tail(self, messages: Sequence[Message], *, stopped: bool = True) -> tuple[int, ...]:
        """What follows a sampled reply when `messages` come next, up to the prompt for the next reply.

        The reply's stop token belongs to the sample; one that was cut off gets it here with `stopped=False`.
        """
        new = [{"role": each.role, "content": each.content} for each in messages]
        mark = _escape_mark(new)
        reply = mark + _REPLY + mark
        before = [{"role": "user", "content": _REPLY}, {"role": "assistant", "content": reply}]
        rendered = self._render([*before, *self._hide_all(new, mark)])
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

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, control tokens by their names; not always whole characters."""
        piece = self._tokenizer.id_to_token(token)
        if piece is None:
            return b""  # beyond the tokenizer: vocabularies are padded
        if not self._byte_level or token in self._added:
            return piece.encode() if token in self._added else self._decode_one(token)
        return bytes(_BYTE_OF_LETTER[letter] for letter in piece)

    def _decode_one(self, token: int) -> bytes:
        return str(self._tokenizer.decode([token], skip_special_tokens=False)).encode()

    def _encode_json(self, messages: list[Any], tools: Sequence[Any] = ()) -> tuple[int, ...]:
        mark = _escape_mark([messages, *tools])
        rendered = self._render(self._hide_all(messages, mark), self._hide_all(list(tools), mark))
        return self._encode(rendered, mark)

    def _render(self, messages: list[Any], tools: list[Any] | None = None) -> str:
        """The template's text of messages in which control tokens are hidden already."""
        try:
            return self._template.render(
                messages=messages,
                tools=tools or None,
                add_generation_prompt=True,
                enable_thinking=False,
                **self._names,
            )
        except jinja2.TemplateError as error:
            raise UserError(f"the chat template refuses these messages: {error}", where="messages") from error

    def _hide_all(self, value: Any, mark: str) -> Any:
        """The same JSON with every string and key hidden."""
        if isinstance(value, str):
            return self._hide(value, mark)
        if isinstance(value, list):
            return [self._hide_all(each, mark) for each in value]
        if isinstance(value, dict):
            return {self._hide(key, mark): self._hide_all(each, mark) for key, each in value.items()}
        return value

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


def _turn_json(turn: Turn) -> dict[str, Any]:
    """As transformers gives a message to a template: arguments are an object, not its text."""
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.calls:
        message["tool_calls"] = [
            {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
            for each in turn.calls
        ]
    if turn.role == "tool":
        message |= {"tool_call_id": turn.call_id, "name": turn.name}
    return message


def _escape_mark(value: object) -> str:
    """A private-use character that stands nowhere in a JSON value."""
    used = set(json.dumps(value, ensure_ascii=False))
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
