# SPDX-License-Identifier: Apache-2.0
"""`streamapp adopt`: an app of a cluster goes on with the state of an earlier owner."""

from __future__ import annotations

import argparse

from streamapp.errors import InputError
from streamapp.owner import checked_owner
from streamapp_operator.commands.target import add_cluster, add_name, names_of_apps, target_of

HELP = "let an app on a cluster go on with the state of another one"
DESCRIPTION = """Sets the annotation streamapp.dev/adopt. The internal topics of an applicationId belong to the
resource that made them. An app that was deleted and applied again, restored from a backup, or moved to another cluster
is another resource, and is refused with `applicationId ... belongs to OWNER`. This command names that owner: a new
driver then goes on where the last one ended, and the applicationId is this app's from then on. It is refused where
another owner is on record, and while OWNER is an app of this cluster. A driver of OWNER that still runs elsewhere is
fenced, and stops."""
EXAMPLE = "  streamapp adopt word-count shop/word-count/0f8fad5b-d9cb-469f-a165-70867728950e"
suggest = names_of_apps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("owner", metavar="OWNER", help="NAMESPACE/NAME/UID or local/NAME, as the error names it")
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp_operator.manifest.adoption import ADOPT_ANNOTATION

    try:
        checked_owner(options.owner)
    except ValueError as error:
        raise InputError(str(error)) from None
    with target_of(options) as target:
        target.annotate(options.name, ADOPT_ANNOTATION, options.owner)
    print(f"a new driver of {options.name} goes on with the state of {options.owner}")
    return 0
