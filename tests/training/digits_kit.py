"""Handwritten digits for real trainings."""

import numpy as np
import torch


class Digits(torch.utils.data.Dataset):
    """scikit-learn's digits in an order of our own, enlarged to 16 by 16 pixels, one channel."""

    column_names = ("pixel_values", "labels")

    def __init__(self, rows):
        from sklearn.datasets import load_digits

        digits = load_digits()
        chosen = np.random.default_rng(0).permutation(len(digits.target))[rows]
        pixels = np.kron(digits.images[chosen] / 16, np.ones((1, 2, 2))).astype("float32")
        self.pixels, self.labels = torch.from_numpy(pixels).unsqueeze(1), digits.target[chosen]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"pixel_values": self.pixels[index], "labels": int(self.labels[index])}
