# SPDX-License-Identifier: Apache-2.0
"""`write.py FOLDER...`: prints the user, and in which of the folders it can make a file."""

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
