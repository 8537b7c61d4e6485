# SPDX-License-Identifier: Apache-2.0
"""The plan on Spark: sessions, one visitor method per node, queries and their supervision."""
