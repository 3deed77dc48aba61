"""A tiny text model that needs nothing but torch, so that a second process starts quickly."""

import torch
from torch import nn

ROWS = [{"input_ids": [1 + (i + j) % 40 for j in range(3 + i % 4)]} for i in range(11)]


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = nn.Embedding(42, 8, padding_idx=0), nn.Linear(8, 3)

    def forward(self, input_ids):
        return self.head(self.words(input_ids).sum(1).tanh())


def pad(rows):
    width = max(len(row["input_ids"]) for row in rows)
    return {"input_ids": torch.tensor([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows])}
