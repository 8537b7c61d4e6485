# SPDX-License-Identifier: Apache-2.0
"""From what was observed to actions: pure."""
