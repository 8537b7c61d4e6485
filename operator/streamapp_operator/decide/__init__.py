# SPDX-License-Identifier: Apache-2.0
"""Derives actions from observations. Pure."""
