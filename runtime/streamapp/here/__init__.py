# SPDX-License-Identifier: Apache-2.0
"""An app run on this machine: by `streamapp run` or by `.run()` in Python."""
