"""`python -m sluice ...` is the command `sluice ...`."""

import os
import sys

from ._library import binary

os.execv(binary(), ["sluice", *sys.argv[1:]])
