"""A local task for Inspect: arithmetic that a small model gets right now and then, asked several times."""

import random

from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


@task
def sums(questions: int = 40, runs: int = 6) -> Task:
    """Sums of two numbers below ten, each asked `runs` times at temperature 1."""
    rng = random.Random(0)
    pairs = rng.sample([(first, second) for first in range(1, 10) for second in range(1, 10)], questions)
    samples = [
        Sample(
            id=f"{first}+{second}",
            input=f"What is {first} plus {second}? Answer with a number.",
            target=str(first + second),
        )
        for first, second in pairs
    ]
    return Task(dataset=samples, solver=generate(), scorer=includes(), epochs=Epochs(runs))
