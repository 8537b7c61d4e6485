# SPDX-License-Identifier: Apache-2.0
"""Observes an app before anything is decided: its objects, its lag, its last run."""
