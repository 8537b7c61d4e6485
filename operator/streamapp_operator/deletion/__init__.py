# SPDX-License-Identifier: Apache-2.0
"""The deletion of an app, or of the operator: the finalizer, the topics on Kafka, the last act of an uninstall."""
