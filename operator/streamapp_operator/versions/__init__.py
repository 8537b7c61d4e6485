# SPDX-License-Identifier: Apache-2.0
"""Which version of an app runs: what a change means, how it is rolled out, and how it proves itself. Pure."""
