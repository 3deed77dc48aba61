"""`python -m hf_pct`, and with it `accelerate launch -m hf_pct compare ...`."""

import sys

from .cli import main

sys.exit(main())
