#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kubernetes runs this before it ends an executor's pod: the executor gets no further task, ends those that it has, and
# leaves by itself.
set -euo pipefail

pid=$(cat /tmp/executor.pid)
kill -PWR "$pid"
while [ -d "/proc/$pid" ]; do sleep 0.2; done
