# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster for tests, whatever the machine: see README.md in this folder."""
