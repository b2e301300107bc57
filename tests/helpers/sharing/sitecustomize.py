"""On PYTHONPATH, lets an environment that a project made itself share the work of shared_work.py beside this folder."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(__file__)))
import shared_work

sys.path.pop()
shared_work.install()
