# SPDX-License-Identifier: Apache-2.0
"""Runtimes with one deliberate mistake: the tests that prove exactly-once must fail with each, or they prove nothing.

A mistake changes a line of a source. The file is compiled anew, and its classes stand before those of the product. The
product has no switch for that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lib.probe import compile_probe
from streamapp.spark.session import JARS

CLASSES = "STREAMAPP_TEST_CLASSES"
"""Environment variable of `lib.mutated`: the folder with the classes."""
PROGRAM = "lib.mutated"
SOURCES = Path("runtime/jvm/src/main/scala/org/apache/spark/sql/streamapp")


@dataclass(frozen=True)
class Mistake:
    """A mistake: in `file`, `wrong` stands in the place of `right`."""

    name: str
    file: str
    right: str
    wrong: str

    @property
    def mark(self) -> str:
        """The line that a process with it writes to stderr."""
        return f"MUTATION {self.name}"

    def compiled(self, root: Path, folder: Path) -> Mapping[str, str]:
        """The environment of a run of `PROGRAM` with the mistake.

        Args:
            root: the repository's root.
            folder: a new one.
        """
        source = (root / SOURCES / self.file).read_text()
        assert source.count(self.right) == 1, f"{self.file} has another form than the mistake '{self.name}'"
        told = f'System.err.println("{self.mark}"); '
        (sources := folder / "sources").mkdir(parents=True)
        (sources / self.file).write_text(source.replace(self.right, told + self.wrong))
        (classes := folder / "classes").mkdir()
        compile_probe(sources, classes)
        return {CLASSES: str(classes), "PYTHONPATH": str(root / "tests")}


NO_FENCE = Mistake(
    "no-fence",
    "TaskTransaction.scala",
    "properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, TransactionalIds.inKafka(conf, id))",
    "properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "
    's"${TransactionalIds.inKafka(conf, id)}/${java.util.UUID.randomUUID()}")',
)
"""The mistake: transactional ids that no other process uses, so that no process is ever fenced."""
MARKER_OUTSIDE = Mistake(
    "marker-outside",
    "TaskTransaction.scala",
    "producing(marks.values.foreach(mark => producer.send(mark.record, mark)))",
    "val outside = new KafkaProducer(conf.client(), new ByteArraySerializer, new ByteArraySerializer); "
    "try marks.values.foreach(mark => outside.send(mark.record, mark)) finally outside.close()",
)
"""The mistake: the marker of an epoch is visible before its transaction is committed."""


def class_path(product: str) -> str:
    """The product's class path with the classes of the environment before its own."""
    ours = str(JARS / "streamapp-runtime.jar")
    assert ours in product.split(os.pathsep)
    return product.replace(ours, os.pathsep.join([os.environ[CLASSES], ours]))
