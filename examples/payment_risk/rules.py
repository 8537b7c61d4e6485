# SPDX-License-Identifier: Apache-2.0
"""What the scores go by."""

LARGE = 1000
AT_HOME = ("DE", "FR", "NL")
