# SPDX-License-Identifier: Apache-2.0
"""The rules that the scores depend on."""

LARGE = 1000
AT_HOME = ("DE", "FR", "NL")
