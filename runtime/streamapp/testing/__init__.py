# SPDX-License-Identifier: Apache-2.0
"""Test cases of an app as text: records sent, records expected, stores, crashes (`streamapp test`)."""
