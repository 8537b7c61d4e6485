# SPDX-License-Identifier: Apache-2.0
"""The driver's pod: what it says over its live interface, how it gets on, how often it may fail."""
