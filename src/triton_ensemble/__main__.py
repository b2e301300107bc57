"""`python -m triton_ensemble` is the command `triton-ensemble`."""

import os
import sys

# Python puts the current folder first, whose modules would run in place of the libraries'.
sys.path[:] = [path for path in sys.path if path not in ("", os.getcwd())]

from triton_ensemble.cli import main  # noqa: E402

sys.exit(main())
