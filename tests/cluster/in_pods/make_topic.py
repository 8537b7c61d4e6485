# SPDX-License-Identifier: Apache-2.0
"""`make_topic.py BOOTSTRAP_SERVERS TOPIC`: makes a topic of one partition."""

import sys

from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig

Admin(KafkaConfig(sys.argv[1])).create([TopicSpec(sys.argv[2], "test", 1)])
