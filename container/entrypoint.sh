#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs one of these in a container of the runtime image:
#
#   executor        a Spark executor; its driver has put all that it must know into SPARK_* variables
#   anything else   the command line: `driver ...`, `broker ...`, `validate ...`
set -euo pipefail

[ "${1:-}" = executor ] || exec streamapp "$@"

options=() # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... are one option each
while name=SPARK_JAVA_OPT_${#options[@]}; [ -v "$name" ]; do options+=("${!name}"); done

echo $$ > /tmp/executor.pid # for decommission.sh

# SPARK_CLASSPATH is spark.executor.extraClassPath, SPARK_CONF_DIR what the driver has mounted for us.
exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$SPARK_HOME/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
