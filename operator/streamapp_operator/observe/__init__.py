# SPDX-License-Identifier: Apache-2.0
"""What is seen of an app before anything is decided: its objects, its lag, its last run."""
