{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* What the operator may do where apps live. docs/security.md has a reason for every verb, and a test holds the two
     and what the operator really asks for against each other. */}}
{{- define "operator.rules" -}}
# The apps: list, watch: which there are. get: the one that is looked at. patch: the finalizer of one whose internal
# topics go with it.
- apiGroups: [streamapp.dev]
  resources: [streamapps]
  verbs: [get, list, watch, patch]
# patch: what the operator says of an app, by server-side apply.
- apiGroups: [streamapp.dev]
  resources: [streamapps/status]
  verbs: [patch]
# Objects of an app. list, watch: whether they are as they should be. get: whether a name is taken by somebody else.
# create, patch: server-side apply of one that is not there yet, or not as it should be. delete: of one that is not
# needed any more.
- apiGroups: [""]
  resources: [configmaps, serviceaccounts, services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# No `escalate` and no `bind`: the operator can hand on only what it may do itself.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
# The credentials of an app, by name. No list, no watch: other Secrets are never seen in bulk.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
# list, watch: how drivers and executors are doing. delete: a driver that must start anew, and pods on a lost node.
# create: whether an executor's pod would be taken, before its template becomes another one; none is made. get, create,
# deletecollection: so that drivers can be given them, who make their executors with them.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
# create, patch: what has happened to an app, for `kubectl describe`; what has happened before is counted up. list: why a
# driver's pod cannot be made or started.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch, list]
# get: which release runs the apps of the namespace. update: that it is this one. create: the Lease, for the first app of a
# namespace; a name cannot be asked for here.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [streamapp-operator-apps]
  verbs: [get, update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}
