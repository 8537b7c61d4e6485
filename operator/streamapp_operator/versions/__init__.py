# SPDX-License-Identifier: Apache-2.0
"""The version of an app that runs: the class of a change, its rollout, and its proof. Pure."""
