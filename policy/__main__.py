"""`python -m policy`."""

import sys

from policy.cli import main

sys.exit(main())
