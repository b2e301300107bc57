"""Run the command `triton-ensemble` as `python -m triton_ensemble`.

`python WHEEL/triton_ensemble` sets up the environment first.
"""

import os
import sys

if __package__:
    # Python puts the current folder first, whose modules would run in place of the libraries'.
    sys.path[:] = [path for path in sys.path if path not in ("", os.getcwd())]
    from triton_ensemble.cli import main

    sys.exit(main())

# Python puts this folder first, whose modules would run in place of the libraries'.
sys.path[0] = os.path.dirname(os.path.dirname(__file__))
from triton_ensemble.launch import main as launch  # noqa: E402

sys.exit(launch(sys.argv[1:]))
