"""`python -m triton_ensemble` is the command `triton-ensemble`."""

import sys

from triton_ensemble.cli import main

sys.exit(main())
