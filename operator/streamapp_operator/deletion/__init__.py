# SPDX-License-Identifier: Apache-2.0
"""An app is deleted, or the operator is: the finalizer, what goes on Kafka, the last act of an uninstall."""
