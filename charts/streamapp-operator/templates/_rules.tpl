{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The rights of the operator where apps live. docs/security.md has a reason for every verb, and a test compares both
     with the requests that the operator really makes. */}}
{{- define "operator.rules" -}}
# The apps. list, watch: to find them. get: to read the one that is looked at. patch: to set the finalizer of one whose
# internal topics go with it.
- apiGroups: [streamapp.dev]
  resources: [streamapps]
  verbs: [get, list, watch, patch]
# patch: to write the status of an app, by server-side apply.
- apiGroups: [streamapp.dev]
  resources: [streamapps/status]
  verbs: [patch]
# Objects of an app. list, watch: to see whether they are as they should be. get: to see whether somebody else has taken
# a name. create, patch: server-side apply of one that is not there yet, or not as it should be. delete: for one that is
# not needed any more.
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
# list, watch: to see how drivers and executors are doing. delete: for a driver that must start anew, and for pods on a
# lost node. create: to ask whether an executor's pod would be taken, before its template changes; none is made. get,
# create, deletecollection: to hand them on to drivers, which make their executors with them.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
# create, patch: to write the events of an app, for `kubectl describe`; an event that has been written before is counted
# up. list: to see why a driver's pod cannot be made or started.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch, list]
# get: to see which release runs the apps of the namespace. update: to take it for this one. create: to make the Lease,
# for the first app of a namespace; RBAC cannot restrict a create by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [streamapp-operator-apps]
  verbs: [get, update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}
