"""A model as the player of an attempt: what it is told and what it says become tokens through its `Speech`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burnish.environments.protocol import Action, Ended, Observation
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.sources.attempt import Player
from burnish.sources.calls import Calls
from burnish.sources.speech import Speech


@dataclass
class Voice:
    """A model as the player of an attempt."""

    speech: Speech
    params: SamplingParams

    @property
    def calls(self) -> Calls:
        """See `Player`."""
        return self.speech.calls

    @property
    def sampled(self) -> int:
        """See `Player.sampled`."""
        return self.speech.sampled

    def end(self) -> None:
        """See `Player.end`."""
        self.speech.release()

    def _params(self, left: int | None) -> SamplingParams:
        return self.params if left is None else replace(self.params, max_tokens=min(self.params.max_tokens, left))

    async def turn(self, observation: Observation, left: int | None) -> Action | Ended | None:
        """See `Player.turn`."""
        if not self.speech.hear(observation.messages):
            return "context"
        [completion] = await self.speech.turn(self._params(left))
        return self.take(completion, observation)

    def take(self, completion: Completion, observation: Observation) -> Action | None:
        """A completion as the answer to an observation."""
        if completion.finish == "cancelled":
            return None
        return self.speech.take(completion, observation.state_key)

    async def turns(
        self, observation: Observation, left: int | None, ways: int
    ) -> list[tuple[Player, Action | None]] | Ended:
        """See `Player.turns`."""
        if not self.speech.hear(observation.messages):
            return "context"
        found = await self.speech.turn(self._params(left), ways)
        voices = [Voice(speech, self.params) for speech in self.speech.branched(ways)]
        self.speech.release()
        ways_on: list[tuple[Player, Action | None]] = []
        for voice, completion in zip(voices, found, strict=True):
            ways_on.append((voice, voice.take(completion, observation)))
        return ways_on
