# SPDX-License-Identifier: Apache-2.0
"""Python, Java's own `Properties`, and our reader for Kafka's Java clients read settings files. All three see the
same."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from lib.probe import all_jars
from streamapp.errors import InputError
from streamapp.kafka.config import SECRETS_FOLDER, parse_properties, reference, resolved, to_text

READER = """
import java.io.*; import java.nio.charset.StandardCharsets; import java.nio.file.*; import java.util.*;
public class Reader {
  static void show(PrintStream out, String title, Properties found) {
    for (Object name : new TreeSet<>(found.keySet())) {
      StringBuilder line = new StringBuilder(title);
      for (String text : new String[] {name.toString(), found.get(name).toString()}) {
        line.append(' ');
        for (char unit : text.toCharArray()) line.append(String.format("%04x", (int) unit));
        if (text.isEmpty()) line.append('-');
      }
      out.println(line);
    }
  }
  public static void main(String[] files) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.US_ASCII);
    for (String file : files) {
      Properties plain = new Properties();
      try (Reader reader = Files.newBufferedReader(Path.of(file), StandardCharsets.UTF_8)) { plain.load(reader); }
      show(out, file + " java", plain);
      show(out, file + " ours", org.apache.spark.sql.streamapp.ClientProperties.load(file));
    }
  }
}
""".replace("try (Reader reader", "try (java.io.Reader reader")


def as_java_reads(folder: Path, *files: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Settings files as Java reads them, by (file's name, reader): `java` is its Properties, `ours` our part."""
    source = folder / "Reader.java"
    source.write_text(READER)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", all_jars(), str(source), *map(str, files)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line in done.stdout.splitlines():
        file, reader, *texts = line.split(" ")
        name, value = ("" if t == "-" else bytes.fromhex(t).decode("utf-16-be", "surrogatepass") for t in texts)
        found.setdefault((Path(file).name, reader), {})[name] = value
    return found


def test_all_of_unicode_is_read_as_it_was_written(tmp_path: Path) -> None:
    points = [chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF]
    texts = {f"all.{start}": "".join(points[start : start + 4096]) for start in range(0, len(points), 4096)}
    texts |= {f"around.{ord(sign)}": f"{sign}a{sign}" for sign in " \t\f\r\n\\#!=:\u0085\u2028\u00a0${}"}
    texts |= {"empty": "", "one\\": "a\\", "k e:y=#!\u0085": "\\u0041", "lines": "-----BEGIN\r\nMII\n-----END\n"}
    file = tmp_path / "all.properties"
    file.write_text(to_text(texts), encoding="utf-8")
    found = as_java_reads(tmp_path, file)
    assert found["all.properties", "java"] == {**texts, SECRETS_FOLDER: ""}
    assert found["all.properties", "ours"] == texts
    assert resolved(parse_properties(file.read_text(encoding="utf-8"))) == texts
    assert file.read_bytes().isascii()


def test_what_people_write_is_read_as_java_does(tmp_path: Path) -> None:
    text = (
        "# one\n! two\n\na=1\nb: 2\nc 3\n  d  =  four = 4  \ne=long \\\n   line\nf=\ng\nh\\ i=\\u00e9\\q\\t.\n"
        "i=a\\\\\nj = x\\ \nk:=v\nl==w\n\\#m=n\n"
    )
    (tmp_path / "by-hand.properties").write_text(text)
    found = as_java_reads(tmp_path, tmp_path / "by-hand.properties")
    assert parse_properties(text) == found["by-hand.properties", "java"]
    with pytest.raises(InputError, match="write a backslash as"):
        parse_properties("sasl.password=C:\\users")


@pytest.mark.parametrize("folder", ["ours", "nobody's"])
def test_a_reference_counts_only_where_we_have_written_one(tmp_path: Path, folder: str) -> None:
    """The scope is the author's text, and goes to the server that gives out tokens."""
    ours, others = tmp_path / "ours", tmp_path / "others"
    for place in (ours, others):
        place.mkdir()
        (place / "token").write_text("secret\n")
    given = {
        "sasl.oauthbearer.scope": reference(str(ours), "token"),
        "sasl.jaas.config": reference(str(others), "token"),
        "ssl.keystore.key": reference(str(ours), "../others/token"),
        "ssl.keystore.certificate.chain": f"x{reference(str(ours), 'token')}",
        "ssl.truststore.certificates": reference(str(ours), "token"),
    }
    file = tmp_path / "client.properties"
    file.write_text(to_text(given, str(ours) if folder == "ours" else ""))
    wanted: Mapping[str, str] = given
    if folder == "ours":
        wanted = {**given, "ssl.truststore.certificates": "secret"}
    assert resolved(parse_properties(file.read_text())) == wanted
    assert as_java_reads(tmp_path, file)["client.properties", "ours"] == wanted


def test_a_setting_of_ones_own_file_that_cannot_be_a_reference_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(InputError, match=r"sasl.oauthbearer.scope cannot be the content of a file; only sasl.username"):
        resolved({"sasl.oauthbearer.scope": reference(str(tmp_path), "token")})
    assert resolved({"sasl.password": reference(str(tmp_path), "token")}) == {"sasl.password": "secret"}
