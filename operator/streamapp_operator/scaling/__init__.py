# SPDX-License-Identifier: Apache-2.0
"""How many executors an app gets. Pure."""
