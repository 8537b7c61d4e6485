# SPDX-License-Identifier: Apache-2.0
"""Builds the JVM part: fetches the pinned jars with Maven, compiles the Scala sources into one jar, and has Java read
Spark's classes ahead of time.

Everything lands in runtime/streamapp/jars, which git ignores and every wheel carries:

    spark/                   added to Spark's class path
    broker/                  the embedded broker's whole class path
                             each with dependencies.txt: Maven's names of these jars
    streamapp-runtime.jar    our own classes, compiled against both

The archive of Spark's classes lies beside Spark (streamapp/spark/class_archive.py).

The compiler is the one inside PySpark's jars, so that it always fits the Spark it is compiled for. A step
whose inputs have not changed since it last succeeded is skipped; the fingerprints are kept in .build/stamps.
Only the standard library is used here, as this runs during set-up.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JARS = HERE.parent / "streamapp" / "jars"
RUNTIME_JAR = JARS / "streamapp-runtime.jar"
POM = HERE / "pom.xml"
SOURCES = HERE / "src" / "main" / "scala"
RESOURCES = HERE / "src" / "main" / "resources"
CLASS_ARCHIVE = HERE.parent / "streamapp" / "spark" / "class_archive.py"
CLASS_LIST = CLASS_ARCHIVE.with_name("classes.lst.gz")
STAMPS = ROOT / ".build" / "stamps"
MAVEN_PROFILES = ("spark", "broker")
MAVEN_GOALS = ("dependency:copy-dependencies", "dependency:list")
DEPENDENCIES = "dependencies.txt"
SCALAC_OPTIONS = (
    "-release",
    "17",
    "-deprecation",
    "-feature",
    "-unchecked",
    "-Xlint:infer-any",
    "-Wunused:imports",
)


class BuildError(Exception):
    """Something the user has to see; the message is complete."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the JVM part of StreamApp.")
    parser.add_argument("step", nargs="?", choices=("all", "fetch", "compile", "archive"), default="all")
    parser.add_argument("--force", action="store_true", help="ignore the fingerprints")
    options = parser.parse_args(arguments)
    try:
        with only_one_build():
            if options.step in ("all", "fetch"):
                fetch(options.force)
            # Half a minute of one processor: beside the compiler on another.
            with archiving(options.force) if options.step in ("all", "archive") else nullcontext():
                if options.step in ("all", "compile"):
                    compile_scala(options.force)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


# --- the steps ----------------------------------------------------------------------------------------------


def fetch(force: bool) -> None:
    """Copy each profile's pinned libraries into its folder."""
    fingerprint = fingerprint_of([POM], " ".join(MAVEN_GOALS))
    folders = [JARS / profile for profile in MAVEN_PROFILES]
    if not force and stamped("fetch", fingerprint) and all(any(folder.glob("*.jar")) for folder in folders):
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise BuildError("Maven (mvn) is not on the PATH; `make setup` says how to install it")
    for profile, folder in zip(MAVEN_PROFILES, folders, strict=True):
        started = time.monotonic()
        say(f"fetching the {profile} jars with Maven ...")
        shutil.rmtree(folder, ignore_errors=True)
        names = f"-DoutputFile={folder / DEPENDENCIES}"
        command = [maven, "-q", "-B", "-ntp", "-f", str(POM), f"-P{profile}", names, *MAVEN_GOALS]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            say("\n".join(done.stdout.strip().splitlines()[-20:]))
            raise BuildError(f"Maven could not fetch the {profile} jars (its own message is above)")
        say(f"  {len(list(folder.glob('*.jar')))} jars in {time.monotonic() - started:.0f} s")
    stamp("fetch", fingerprint)


def compile_scala(force: bool) -> None:
    """Compile all Scala sources into RUNTIME_JAR.

    The jar is replaced in one step, so that a running JVM keeps its own.
    """
    spark_jars = pyspark_jars()
    sources = files_below(SOURCES, ".scala")
    resources = files_below(RESOURCES, "")
    class_path = [spark_jars, *(JARS / profile for profile in MAVEN_PROFILES)]
    libraries = "\n".join(sorted(jar.name for folder in class_path for jar in folder.glob("*.jar")))
    fingerprint = fingerprint_of([*sources, *resources, Path(__file__)], libraries + " ".join(SCALAC_OPTIONS))
    if not force and stamped("compile", fingerprint) and RUNTIME_JAR.exists():
        return
    if not sources:
        raise BuildError(f"there is no Scala source below {SOURCES}")
    started = time.monotonic()
    say(f"compiling {len(sources)} Scala files ...")
    with tempfile.TemporaryDirectory(prefix="streamapp-scalac-") as temporary:
        classes = Path(temporary)
        command = [
            java(),
            "-Xss8m",
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-cp",
            os.pathsep.join(f"{folder}/*" for folder in class_path),
            "scala.tools.nsc.Main",
            "-usejavacp",
            "-d",
            str(classes),
            *SCALAC_OPTIONS,
            *map(str, sources),
        ]
        if subprocess.run(command).returncode != 0:
            raise BuildError("the Scala sources do not compile (the compiler's messages are above)")
        pack(RUNTIME_JAR, [(classes, files_below(classes, "")), (RESOURCES, resources)])
    stamp("compile", fingerprint)
    say(f"  {RUNTIME_JAR.relative_to(ROOT)} in {time.monotonic() - started:.0f} s")


@contextmanager
def archiving(force: bool) -> Iterator[None]:
    """Have the archive of Spark's classes made meanwhile. Without one apps run all the same, so this fails nothing."""
    version = subprocess.run([java(), "-version"], capture_output=True, text=True).stderr
    jars = sorted([*pyspark_jars().glob("*.jar"), *(JARS / "spark").glob("*.jar")])
    dates = "\n".join(f"{jar} {jar.stat().st_mtime}" for jar in jars)
    fingerprint = fingerprint_of([CLASS_ARCHIVE, CLASS_LIST], version + dates)
    if not force and stamped("archive", fingerprint):
        yield
        return
    started = time.monotonic()
    # -P: the folder of a script that is run is no place to look for modules.
    command = [sys.executable, "-P", str(CLASS_ARCHIVE)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as making:
        yield
        if making.poll() is None:
            say("making the archive of Spark's classes ...")
        problem = making.communicate()[1]
    if making.returncode != 0:
        say(f"  {problem.strip()}")
        return
    stamp("archive", fingerprint)
    say(f"  made in {time.monotonic() - started:.0f} s")


def pack(target: Path, parts: list[tuple[Path, list[Path]]]) -> None:
    """Write a jar that depends on its contents only: sorted entries, one fixed date."""
    entries = sorted((str(file.relative_to(base)), file) for base, files in parts for file in files)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".jar.new")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), "Manifest-Version: 1.0\r\n\r\n")
        for name, file in entries:
            jar.writestr(zipfile.ZipInfo(name), file.read_bytes(), zipfile.ZIP_DEFLATED)
    unfinished.replace(target)


# --- finding things -----------------------------------------------------------------------------------------


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if found is None:
        raise BuildError(
            f"no java command found ({'JAVA_HOME is ' + home if home else 'on the PATH'}); JDK 17 is needed"
        )
    return found


def pyspark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise BuildError(f"{sys.executable} has no pyspark; run `make setup`")
    return Path(spec.origin).parent / "jars"


def files_below(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{suffix}") if path.is_file())


# --- stamps -------------------------------------------------------------------------------------------------


def fingerprint_of(files: Iterable[Path], more: str = "") -> str:
    digest = hashlib.sha256(more.encode())
    for file in files:
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def stamped(step: str, fingerprint: str) -> bool:
    file = STAMPS / f"jvm-{step}"
    return file.exists() and file.read_text() == fingerprint


def stamp(step: str, fingerprint: str) -> None:
    STAMPS.mkdir(parents=True, exist_ok=True)
    (STAMPS / f"jvm-{step}").write_text(fingerprint)


@contextmanager
def only_one_build() -> Iterator[None]:
    """Two shells may run `make` at once; the second waits for the first, then finds nothing left to do."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    with (STAMPS / "jvm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
