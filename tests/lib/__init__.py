# SPDX-License-Identifier: Apache-2.0
"""What the tests share. Nothing here is a test."""
