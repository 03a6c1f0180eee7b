{{/* Copyright The csccm Authors. SPDX-License-Identifier: Apache-2.0 */}}

{{- define "cloudstack-ccm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of all names: 55 characters leave room for the longest suffix of a Service. */}}
{{- define "cloudstack-ccm.fullname" -}}
{{- $name := include "cloudstack-ccm.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $name = .Release.Name -}}
{{- else -}}
{{- $name = printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- $name | trunc 55 | trimSuffix "-" -}}
{{- end -}}

{{- define "cloudstack-ccm.serviceAccountName" -}}
{{- default (ternary (include "cloudstack-ccm.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Frozen: the selector of a Deployment cannot be changed. */}}
{{- define "cloudstack-ccm.selectorLabels" -}}
app.kubernetes.io/name: {{ include "cloudstack-ccm.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of Pods. None depends on the chart's version: a new version alone must not restart Pods. */}}
{{- define "cloudstack-ccm.podLabels" -}}
{{ include "cloudstack-ccm.selectorLabels" . }}
app.kubernetes.io/component: cloud-controller-manager
app.kubernetes.io/part-of: csccm
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "cloudstack-ccm.labels" -}}
{{ include "cloudstack-ccm.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The labels of .root and .more. Those of .more override the others, because a key may occur only once. */}}
{{- define "cloudstack-ccm.labelsAnd" -}}
{{- toYaml (mergeOverwrite (include "cloudstack-ccm.labels" .root | fromYaml) (default dict .more)) -}}
{{- end -}}

{{/* A released chart names its own image's digest in Chart.yaml, not in values.yaml: there `helm upgrade
--reuse-values` would carry the digest of the release before into the new one. */}}
{{- define "cloudstack-ccm.image" -}}
{{- $digest := .Values.image.digest -}}
{{- if not (or $digest .Values.image.tag) -}}
{{- $digest = index (default dict .Chart.Annotations) "csccm.io/image-digest" -}}
{{- end -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag | replace "+" "_") -}}
{{- with $digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* The classes of Services that the controller serves, as a list of CEL. The empty one is that of Services without a class. */}}
{{- define "cloudstack-ccm.classes" -}}
{{- $classes := compact (list .Values.loadBalancers.class) -}}
{{- if or (not $classes) .Values.loadBalancers.classless -}}{{- $classes = append $classes "" -}}{{- end -}}
['{{ join "', '" $classes }}']
{{- end -}}

{{/* Not empty if a rule has a label selector, for which the controller must read namespaces. */}}
{{- define "cloudstack-ccm.tenancy.selects" -}}
{{- $rules := append (append (values (default dict .Values.tenancy.annotations)) .Values.tenancy.sourceNATAddress) .Values.tenancy.foreignAddress -}}
{{- $entries := default list .Values.tenancy.trustedNamespaces -}}
{{- range $rules -}}{{- $entries = concat $entries (default list (default dict .).allow) -}}{{- end -}}
{{- range $entries -}}{{- if regexMatch "[=!(]" . -}}true{{- end -}}{{- end -}}
{{- end -}}
