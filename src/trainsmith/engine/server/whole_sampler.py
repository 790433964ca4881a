"""A sampler of the continuous kind over one that samples all at once."""

from __future__ import annotations

from dataclasses import dataclass

from trainsmith.engine.network import Network, plain_network
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import SampleRequest
from trainsmith.engine.sampling import Sampler
from trainsmith.engine.server.listening import Receiver


@dataclass(eq=False)
class Ticket:
    request: SampleRequest
    receiver: Receiver


class WholeSampler:
    def __init__(self, policy: Policy, network: Network | None) -> None:
        self._policy = policy
        self._sampler = Sampler(
            network or plain_network(policy.weights),
            policy.architecture,
            policy.rotary,
            policy.tokenizer.stop_tokens,
        )
        self._waiting: list[Ticket] = []

    def submit(self, request: SampleRequest, receiver: Receiver) -> Ticket:
        self._policy._check(request)
        ticket = Ticket(request, receiver)
        self._waiting.append(ticket)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        if ticket in self._waiting:
            self._waiting.remove(ticket)

    def step(self) -> bool:
        if not self._waiting:
            return False
        tickets, self._waiting = self._waiting, []
        for ticket, done in zip(
            tickets, self._sampler.sample([each.request for each in tickets]), strict=True
        ):
            for token, logprob in zip(done.tokens, done.logprobs, strict=True):
                ticket.receiver.on_token(token, logprob)
            ticket.receiver.on_done(done)
        return True
