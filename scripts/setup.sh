#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up a fresh machine, up to a working .venv/bin/streamapp; takes seconds when there is nothing to do.
#
#   1. tools    Python 3.11 or later (with venv), JDK 17 or later, Maven: installed by apt-get where we are root on
#               Debian or Ubuntu; elsewhere ONE line says what is missing and what to type.
#   2. python   .venv with the versions of requirements.lock, and this project in editable form.
#   3. jvm      the pinned jars, our own Scala compiled, Spark's classes read ahead (runtime/jvm/build.py).
#
# A finished step leaves a fingerprint of its inputs in .build/stamps and is skipped while that still fits.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly stamps=.build/stamps
readonly venv_python=.venv/bin/python

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# --- 1. tools ---------------------------------------------------------------------------------------------------------

find_python() { # the first Python that is new enough and can make a virtual environment
  local candidate
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

have_jdk() { # Spark 4 runs on Java 17 and later; a runtime is enough, as the Scala compiler is PySpark's own
  local java=java version
  [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
  version=$("$java" -version 2>&1) || return 1
  version=${version#*version \"}
  version=${version%%[.\"-]*}
  [[ $version =~ ^[0-9]+$ ]] && [ "$version" -ge 17 ]
}

missing_tools() { # one word each
  find_python >/dev/null || printf 'python '
  have_jdk || printf 'jdk '
  command -v mvn >/dev/null 2>&1 || printf 'maven '
}

install_hint() { # $1: the missing tools; prints the fix on this machine
  local names="$1"
  in_words() { local out="" word; for word in $names; do case $word in
    python) out+="$1 " ;; jdk) out+="$2 " ;; maven) out+="$3 " ;; esac; done; printf '%s' "${out% }"; }
  case "$(uname -s)" in
    Darwin) printf 'type: brew install %s' "$(in_words python@3.12 temurin@17 maven)" ;;
    *)
      if command -v apt-get >/dev/null 2>&1; then
        printf 'type: sudo apt-get update && sudo apt-get install -y %s' \
          "$(in_words "$(apt_python)" "$(apt_jdk)" maven)"
      elif command -v dnf >/dev/null 2>&1; then
        printf 'type: sudo dnf install -y %s' "$(in_words python3.12 java-17-openjdk-headless maven)"
      elif command -v pacman >/dev/null 2>&1; then
        printf 'type: sudo pacman -S %s' "$(in_words python jdk17-openjdk maven)"
      elif command -v zypper >/dev/null 2>&1; then
        printf 'type: sudo zypper install -y %s' "$(in_words python312 java-17-openjdk-headless maven)"
      elif command -v apk >/dev/null 2>&1; then
        printf 'use macOS or a Linux with glibc: some of the Python packages have no build for musl'
      else
        printf 'install the missing tools with the package manager of this machine'
      fi ;;
  esac
}

in_plain_words() {
  local words=""
  [[ $1 != *python* ]] || words+="Python 3.11 or later with venv, "
  [[ $1 != *jdk* ]] || words+="JDK 17 or later, "
  [[ $1 != *maven* ]] || words+="Maven, "
  printf '%s' "${words%, }"
}

ensure_tools() {
  local missing
  missing=$(missing_tools)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    local packages=() log=.build/apt.log
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "apt-get update has failed (its log: $log)"; }
    # shellcheck disable=SC2207  # two words
    [[ $missing != *python* ]] || packages+=($(apt_python))
    [[ $missing != *jdk* ]] || packages+=("$(apt_jdk)")
    [[ $missing != *maven* ]] || packages+=(maven)
    say "installing with apt-get: ${packages[*]} ..."
    if ! apt-get install -y -qq --no-install-recommends "${packages[@]}" >>"$log" 2>&1; then
      tail -n 5 "$log" >&2
      die "apt-get could not install ${packages[*]} (its log: $log)"
    fi
    missing=$(missing_tools)
  fi
  [ -z "$missing" ] || die "$(in_plain_words "$missing") missing; $(install_hint "$missing")"
}

apt_has() { # $1: a package, $2: what the version that would be installed has to match
  apt-cache policy "$1" 2>/dev/null | grep -Eq "Candidate: $2"
}

apt_python() { # Ubuntu 22.04 has 3.10 by that name, and a later one by its own
  local name
  if ! apt_has python3 '3\.(1[1-9]|[2-9][0-9])\.'; then
    for name in python3.13 python3.12 python3.11; do
      if apt_has "$name" '[0-9]'; then printf '%s %s-venv' "$name" "$name"; return; fi
    done
  fi
  printf 'python3 python3-venv'
}

apt_jdk() { # newer Debian releases no longer carry 17; 21 serves as well
  local package
  for package in openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless; do
    if apt_has "$package" '[0-9]'; then printf '%s' "$package"; return; fi
  done
  printf 'openjdk-17-jdk-headless'
}

# --- 2. python --------------------------------------------------------------------------------------------------------

ensure_python_environment() {
  local fingerprint
  fingerprint=$(cat requirements.lock container/build.lock pyproject.toml | cksum)
  if [ -x "$venv_python" ] && [ "$(cat "$stamps/python" 2>/dev/null)" = "$fingerprint" ]; then return 0; fi
  if ! "$venv_python" -c 'import pip' 2>/dev/null; then
    say "creating .venv with $(find_python) ..."
    "$(find_python)" -m venv --clear .venv
  fi
  say "installing the Python packages of requirements.lock (pyspark is large: minutes on a slow line) ..."
  # PySpark comes as sources. Its build tools are checked as well: an isolated build would fetch them unchecked.
  "$venv_python" -m pip install --quiet --disable-pip-version-check --require-hashes -r container/build.lock &&
    "$venv_python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation -r requirements.lock ||
    die "pip could not install requirements.lock (its own message is above)"
  "$venv_python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . ||
    die "pip could not install this project in editable form (its own message is above)"
  printf '%s' "$fingerprint" >"$stamps/python"
}

# --- all --------------------------------------------------------------------------------------------------------------

started=$SECONDS
mkdir -p "$stamps"
ensure_tools
ensure_python_environment
"$venv_python" runtime/jvm/build.py
[ $((SECONDS - started)) -lt 5 ] || say "set-up finished in $((SECONDS - started)) s"
