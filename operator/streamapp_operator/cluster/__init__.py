# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes API, a cache of what is there, and the Lease."""
