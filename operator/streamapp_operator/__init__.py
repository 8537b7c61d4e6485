# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes operator: runs what a StreamApp resource describes.

Reflectors keep a cache of the cluster and say which app to look at; workers call one level-based `reconcile`, which
compares what is wanted (rendered from the same plan the runtime is given) with what is observed, and status is the log
of what it is about to do.
"""
