# SPDX-License-Identifier: Apache-2.0
"""A StreamApp resource as it is read: the app, its versions, its code and its login to Kafka. Pure."""
