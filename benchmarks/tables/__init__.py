"""The papers' tables on real data: cells that are trained once, answers that are kept, tables drawn from them."""
