# SPDX-License-Identifier: Apache-2.0
"""The user's own modules from the ConfigMap that a resource names. With them in the place of the name the resource
describes the whole app: another text is another version, which has to prove itself, and the one before can come back.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamapp.errors import ManifestError, Problem
from streamapp.manifest.model import is_object_name

Object = dict[str, Any]
CODE_KIND = "ConfigMap with code"
"""A kind of its own for lookups: a ConfigMap of the user's, which is neither cached nor watched."""
_FIELD = "code"


def named_config_map(body: Mapping[str, Any]) -> str | None:
    """The ConfigMap that a resource's `code` names; the resource may be wrong in any way."""
    code = (body.get("spec") or {}).get("code")
    ref = code.get("configMapRef") if isinstance(code, dict) else None
    name = ref.get("name") if isinstance(ref, dict) else None
    return str(name) if is_object_name(name) else None


def with_modules(body: Mapping[str, Any], found: Object | None) -> Mapping[str, Any]:
    """The resource with the modules in the place of the name.

    Args:
        body: the resource.
        found: the ConfigMap that it names; None: there is none.

    Raises:
        ManifestError: when no modules can be had.
    """
    code = (body.get("spec") or {}).get("code")
    if not isinstance(code, dict) or "files" in code:
        return body
    name = named_config_map(body)
    if name is None:
        if "path" not in code:
            return body  # which is wrong, and the manifest's model says why
        fix = "on a cluster, add configMapRef: {name: CONFIGMAP}, or write the modules into files"
        raise ManifestError([Problem(None, f"{_FIELD}.path", str(code["path"]), "`path` is for a laptop", fix)])
    namespace = body["metadata"].get("namespace", "default")
    make = f"kubectl -n {namespace} create configmap {name} --from-file=scoring.py"
    if found is None:
        message = f"there is no ConfigMap '{name}' in namespace '{namespace}'"
        raise ManifestError([Problem(None, f"{_FIELD}.configMapRef", None, message, f"make it: {make}")])
    if unreadable := sorted(file for file in found.get("binaryData") or {} if file.endswith(".py")):
        message = f"'{unreadable[0]}' of ConfigMap '{name}' is not UTF-8 text"
        raise ManifestError([Problem(None, f"{_FIELD}.configMapRef", None, message, "save it as UTF-8")])
    # As of a folder on a laptop, which may have a README too.
    modules = {file: text for file, text in (found.get("data") or {}).items() if file.endswith(".py")}
    if not modules:
        message = f"ConfigMap '{name}' has no modules in its data"
        fix = f"make it anew: {make} --dry-run=client -o yaml | kubectl apply -f -"
        raise ManifestError([Problem(None, f"{_FIELD}.configMapRef", None, message, fix)])
    return {**body, "spec": {**body["spec"], "code": {"files": modules}}}
