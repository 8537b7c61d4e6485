# SPDX-License-Identifier: Apache-2.0
"""Commands that the operator's package adds to `streamapp` (entry points in pyproject.toml)."""
