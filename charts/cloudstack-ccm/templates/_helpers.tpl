{{/* Copyright The csccm Authors. SPDX-License-Identifier: Apache-2.0 */}}

{{/* Name of the Deployment and prefix of the other objects. */}}
{{- define "cloudstack-ccm.fullname" -}}
{{- default "cloudstack-cloud-controller-manager" .Values.fullnameOverride -}}
{{- end -}}

{{/* Namespace of the objects that have one. */}}
{{- define "cloudstack-ccm.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "cloudstack-ccm.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "cloudstack-ccm.fullname" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{/* Frozen: the selector of a Deployment cannot be changed. An umbrella chart may have this one twice, under aliases. */}}
{{- define "cloudstack-ccm.selectorLabels" -}}
app.kubernetes.io/name: cloudstack-ccm
app.kubernetes.io/instance: {{ include "cloudstack-ccm.instance" . }}
{{- end -}}

{{- define "cloudstack-ccm.instance" -}}
{{- .Release.Name -}}
{{- if ne .Chart.Name "cloudstack-ccm" -}}
{{- printf "-%s" .Chart.Name | trunc (sub 63 (len .Release.Name) | int) | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "cloudstack-ccm.labels" -}}
{{ include "cloudstack-ccm.selectorLabels" . }}
app.kubernetes.io/component: cloud-controller-manager
app.kubernetes.io/part-of: csccm
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The labels of .root with those of .more, which win: a key must not be there twice. */}}
{{- define "cloudstack-ccm.labelsAnd" -}}
{{- $labels := include "cloudstack-ccm.labels" .root -}}
{{- if .more -}}
{{- toYaml (mergeOverwrite (fromYaml $labels) .more) -}}
{{- else -}}
{{- $labels -}}
{{- end -}}
{{- end -}}

{{/* What users add to the labels of Pods. */}}
{{- define "cloudstack-ccm.podLabels" -}}
{{- with mergeOverwrite (deepCopy (default dict .Values.commonLabels)) (default dict .Values.podLabels) -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* A released chart names its own image's digest in Chart.yaml, not in values.yaml: there `helm upgrade
--reuse-values` would carry the digest of the release before into the new one. */}}
{{- define "cloudstack-ccm.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag | replace "+" "_" -}}
{{- $own := index (default dict .Chart.Annotations) "csccm.io/image-digest" -}}
{{- $repository := .Values.image.repository -}}
{{- with default (default dict .Values.global).imageRegistry .Values.image.registry -}}
{{- /* As in all image names, the first part is a registry if it has a dot or a colon, or is localhost. */ -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s:%s@%s" $repository $tag .Values.image.digest -}}
{{- else if and $own (not .Values.image.tag) -}}
{{- printf "%s:%s@%s" $repository $tag $own -}}
{{- else -}}
{{- printf "%s:%s" $repository $tag -}}
{{- end -}}
{{- end -}}

{{/* "true" if the controller in .name runs, empty if not. */}}
{{- define "cloudstack-ccm.runs" -}}
{{- if or (not .root.Values.controllers) (has .name .root.Values.controllers) -}}true{{- end -}}
{{- end -}}

{{/* Not empty if a rule has a label selector: then the controller must read namespaces. */}}
{{- define "cloudstack-ccm.tenancy.selects" -}}
{{- $lists := list .Values.tenancy.trustedNamespaces -}}
{{- range append (append (values (default dict .Values.tenancy.annotations)) .Values.tenancy.sourceNATAddress) .Values.tenancy.foreignAddress -}}
{{- $lists = append $lists (default dict .).allow -}}
{{- end -}}
{{- range $lists -}}{{- range . -}}{{- if regexMatch "[=!(]" . -}}true{{- end -}}{{- end -}}{{- end -}}
{{- end -}}
