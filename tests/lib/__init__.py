# SPDX-License-Identifier: Apache-2.0
"""Parts that tests share. Nothing here is a test."""
