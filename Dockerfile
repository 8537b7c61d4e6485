# SPDX-License-Identifier: Apache-2.0
# The two images, as targets of this file; `make images` builds the wheel that it copies, and then both:
#
#   runtime    an app's driver and executors, and the command line: Python, a Java runtime, Spark
#   operator   the Kubernetes operator: Python alone
#
# Both run as user 10001 and write nothing but below /tmp and /var/lib/streamapp, so that a read-only root with a volume
# at each of the two will do. The contents of an image are listed in its /opt/sbom.cdx.json (CycloneDX). Layers that
# change seldom come first: a change of our own code makes one small layer anew.
#
# `make images` names the base by its present digest on its registry, and keeps that as a label of the image; BASE_IMAGE
# in the environment names another. Without a registry, a base is made from Debian's packages.
ARG BASE_IMAGE=debian:bookworm-slim

# --- the base of both -------------------------------------------------------------------------------------------------

FROM ${BASE_IMAGE} AS python
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates python3 tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
 && groupadd --gid 10001 streamapp \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/streamapp --shell /usr/sbin/nologin streamapp \
 && install -d -o 10001 -g 10001 /var/lib/streamapp
# /opt/packages has the Python packages of others, /opt/streamapp ours.
ENV HOME=/var/lib/streamapp \
    LANG=C.UTF-8 \
    PATH=/opt/streamapp/bin:/opt/packages/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/opt/streamapp \
    PYTHONUNBUFFERED=1
WORKDIR /var/lib/streamapp

# --- packages, at the versions and hashes of `make lock` ------------------------------------------------------------

FROM python AS builder
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv \
 && python3 -m venv /opt/packages

FROM builder AS runtime-packages
COPY container/build.lock container/runtime.lock /build/
# PySpark comes as sources: built into a wheel first, it is the same package as from a wheel in pip's cache.
RUN HOME=/root /opt/packages/bin/pip install -q --disable-pip-version-check --require-hashes -r /build/build.lock \
 && HOME=/root /opt/packages/bin/pip install -q --disable-pip-version-check --require-hashes --no-build-isolation -r /build/runtime.lock \
 && /opt/packages/bin/pip uninstall -q -y wheel packaging setuptools pip

FROM builder AS operator-packages
COPY container/operator.lock /build/
RUN HOME=/root /opt/packages/bin/pip install -q --disable-pip-version-check --require-hashes -r /build/operator.lock \
 && /opt/packages/bin/pip uninstall -q -y setuptools pip

FROM builder AS streamapp
COPY dist/streamapp-*.whl /build/
RUN HOME=/root /opt/packages/bin/pip install -q --disable-pip-version-check --no-deps --no-index --target /opt/streamapp /build/*.whl

FROM streamapp AS streamapp-without-jars
RUN rm -rf /opt/streamapp/streamapp/jars

# --- Java, Spark, and Spark's classes read ahead of time --------------------------------------------------------------

FROM python AS spark
# In an image without manual pages and such, the Java packages' own set-up misses their folders.
RUN apt-get update -qq \
 && install -d /usr/share/man/man1 \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
COPY --from=runtime-packages /opt/packages /opt/packages
RUN ln -s /opt/packages/lib/python3*/site-packages/pyspark /opt/spark && install -d /opt/spark/conf
ENV SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=python3

FROM spark AS classes
COPY runtime/streamapp/jars/spark /opt/streamapp/streamapp/jars/spark
COPY runtime/streamapp/spark/class_archive.py runtime/streamapp/spark/classes.lst.gz /opt/streamapp/streamapp/spark/
RUN PYTHONPATH= python3 /opt/streamapp/streamapp/spark/class_archive.py

# --- the images -------------------------------------------------------------------------------------------------------

FROM python AS operator
COPY --from=operator-packages /opt/packages /opt/packages
COPY container/sbom.py /opt/
COPY --from=streamapp-without-jars /opt/streamapp /opt/streamapp
RUN python3 /opt/sbom.py streamapp/operator > /opt/sbom.cdx.json
LABEL org.opencontainers.image.title="StreamApp operator" org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
ENTRYPOINT ["tini", "--", "python3", "-m", "streamapp_operator"]

FROM spark AS runtime
COPY --from=classes /opt/spark/classes.jar /opt/spark/classes.jsa /opt/spark/
COPY container/entrypoint.sh container/decommission.sh container/sbom.py /opt/
COPY --from=streamapp /opt/streamapp /opt/streamapp
# The jars have the dates that the archive of their classes knows.
COPY --from=classes /opt/streamapp/streamapp/jars/spark /opt/streamapp/streamapp/jars/spark
RUN python3 /opt/sbom.py streamapp/runtime > /opt/sbom.cdx.json
LABEL org.opencontainers.image.title="StreamApp runtime" org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
ENTRYPOINT ["tini", "--", "/opt/entrypoint.sh"]
