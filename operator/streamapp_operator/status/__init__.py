# SPDX-License-Identifier: Apache-2.0
"""The status of a resource: phase, conditions, numbers, events. Pure."""
