# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes operator: runs what a StreamApp resource describes. Not there yet; see README.md for what
is.

Its shape is settled: kopf only watches and calls one level-based `reconcile`, which compares what is wanted
(rendered from the same plan the runtime is given) with what is observed, and status is the log of what it is
about to do.
"""
