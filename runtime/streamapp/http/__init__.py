# SPDX-License-Identifier: Apache-2.0
"""The live interface of a running app over HTTP."""
