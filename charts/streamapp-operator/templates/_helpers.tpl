{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* At most 52 characters, as for a CronJob, which leaves room for suffixes. */}}
{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "operator.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "operator.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{/* The labels of the pod that `helm test` runs. */}}
{{- define "operator.testSelector" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
{{ include "operator.sharedLabels" . }}
{{- end }}

{{/* The labels of every object, whatever it is part of. */}}
{{- define "operator.sharedLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: streamapp
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "operator.fullname" .) }}
{{- else }}
{{- required "serviceAccount.create is false: say which ServiceAccount there is, in serviceAccount.name" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* (list image root): registry/repository:tag or registry/repository@digest */}}
{{- define "operator.imageOf" -}}
{{- $image := index . 0 }}{{ $root := index . 1 }}
{{- with $image.registry | default $root.Values.global.imageRegistry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The namespaces that are watched, as JSON; not for watch.clusterWide. */}}
{{- define "operator.namespaces" -}}
{{- $own := .Release.Namespace }}
{{- $named := .Values.watch.namespaces }}
{{- if .Values.watch.ownNamespace }}{{ $named = append $named $own }}{{ end }}
{{- $named = $named | default (list "default") }}
{{- if and (has $own $named) (not .Values.watch.ownNamespace) }}
{{- fail (printf "apps in namespace '%s' could take the account of the operator, which is installed there: install it in another namespace, or name others in watch.namespaces, or set watch.ownNamespace to true where everybody who writes apps may have its rights" $own) }}
{{- end }}
{{- $named | uniq | sortAlpha | toJson }}
{{- end }}

{{/* (list secrets root): these and the global ones, as JSON; a global one may be a name alone. */}}
{{- define "operator.pullSecrets" -}}
{{- $all := list }}
{{- range concat (index . 0) (index . 1).Values.global.imagePullSecrets }}
{{- $all = append $all (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- $all | uniq | toJson }}
{{- end }}

{{/* (list role root): the pod template that all drivers or executors begin with, as JSON. */}}
{{- define "operator.podTemplate" -}}
{{- $apps := (index . 1).Values.apps }}
{{- $metadata := dict }}
{{- with $apps.podLabels }}{{ $_ := set $metadata "labels" . }}{{ end }}
{{- with $apps.podAnnotations }}{{ $_ := set $metadata "annotations" . }}{{ end }}
{{- $spec := dict }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $apps $field }}{{ $_ := set $spec $field . }}{{ end }}
{{- end }}
{{- $all := dict }}
{{- with $metadata }}{{ $_ := set $all "metadata" . }}{{ end }}
{{- with $spec }}{{ $_ := set $all "spec" . }}{{ end }}
{{- mergeOverwrite (deepCopy $all) (index $apps (index . 0)).podTemplate | toJson }}
{{- end }}

{{/* The settings that the operator reads from STREAMAPP_SETTINGS, as JSON. */}}
{{- define "operator.settings" -}}
{{- $secrets := list }}
{{- range include "operator.pullSecrets" (list .Values.apps.imagePullSecrets .) | fromJsonArray }}{{ $secrets = append $secrets .name }}{{ end }}
{{- dict
  "image" (include "operator.imageOf" (list .Values.apps.image .))
  "imagePullPolicy" .Values.apps.image.pullPolicy
  "imagePullSecrets" $secrets
  "driverResources" .Values.apps.driver.resources
  "executorResources" .Values.apps.executor.resources
  "driverPodTemplate" (include "operator.podTemplate" (list "driver" .) | fromJson)
  "executorPodTemplate" (include "operator.podTemplate" (list "executor" .) | fromJson)
  "serviceAccountAnnotations" .Values.apps.serviceAccount.annotations
  "podTemplateAllow" .Values.apps.podTemplate.allow
  "allowedImages" .Values.apps.allowedImages
  "allowedBrokers" .Values.apps.allowedBrokers
  "allowedTokenEndpoints" .Values.apps.allowedTokenEndpoints
  "restartsAtATime" (.Values.apps.restartsAtATime | int)
  "networkPolicy" .Values.apps.networkPolicy
  "apiServerPorts" .Values.networkPolicy.apiServerPorts
  "kafkaPorts" .Values.apps.kafkaPorts
  | toJson }}
{{- end }}
