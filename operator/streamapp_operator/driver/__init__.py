# SPDX-License-Identifier: Apache-2.0
"""The driver's pod: its answers over its live interface, its progress, its budget of failures."""
