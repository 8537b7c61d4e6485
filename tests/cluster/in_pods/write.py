# SPDX-License-Identifier: Apache-2.0
"""`write.py FOLDER...`: who we are, and in which of the folders we can make a file."""

import os
import sys
from pathlib import Path

print("user", os.getuid())
for folder in sys.argv[1:]:
    try:
        Path(folder, "file").touch()
        print(folder, "written")
    except OSError as error:
        print(folder, error.strerror)
