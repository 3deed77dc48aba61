"""Run by `test_fisher.py` in two processes: each saves the Fisher that both estimated together."""

import sys

import torch.distributed
from bag_model import ROWS, Bag, pad
from two_processes import end_together

from hf_pct.models.fisher.diagonal import diagonal_fisher, fisher_batches, save_fisher

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    fisher = diagonal_fisher(Bag(), fisher_batches(ROWS, pad, 3))
    save_fisher(fisher, sys.argv[1] + str(torch.distributed.get_rank()))
    end_together()
