"""One bar over a whole plan: how much is trained, what runs now, what is left."""

from __future__ import annotations

from collections.abc import Callable

from tqdm.auto import tqdm


class Progress:
    """Counts in steps of training. What is found trained, or is dropped, counts as done."""

    def __init__(self, length: float, steps_per_training: int, show: bool) -> None:
        self.steps_per_training = steps_per_training
        self.bar = tqdm(total=self._steps(length), disable=not show, desc="update", unit="step")
        self._expected, self._done = 0, 0

    def _steps(self, length: float) -> int:
        return max(1, round(length * self.steps_per_training))

    def now(self, name: str, left: int) -> None:
        """What runs now, and how many trainings come after it."""
        self.bar.set_postfix_str(f"{name}, then {left} more" if left else name)

    def begin(self, length: float) -> Callable[[], None]:
        """A training of this length; returns what to call after each of its steps."""
        self._expected, self._done = self._steps(length), 0
        return self._step

    def _step(self) -> None:
        if self._done < self._expected:
            self._done += 1
            self.bar.update()

    def end(self) -> None:
        """The training is done, however many steps it took."""
        self.bar.update(self._expected - self._done)
        self._expected = self._done = 0

    def skip(self, length: float) -> None:
        """A training that is not needed."""
        self.begin(length)
        self.end()

    def close(self) -> None:
        self.bar.close()
