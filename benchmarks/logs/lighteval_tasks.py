"""A local task for lighteval: the questions that `runs.py tasks` wrote, in the folder LOG_TASKS."""

import os

from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def question(line: dict, task_name: str = "") -> Doc:
    choices = [f" {choice}" for choice in line["choices"]]
    query = f"Question: {line['question']}\nAnswer:"
    return Doc(task_name=task_name, query=query, choices=choices, gold_index=line["answer"])


TASKS_TABLE = [
    LightevalTaskConfig(
        name="local_openbookqa",
        prompt_function=question,
        hf_repo=os.path.join(os.environ["LOG_TASKS"], "openbookqa"),
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        metrics=[Metrics.loglikelihood_acc],
    )
]
