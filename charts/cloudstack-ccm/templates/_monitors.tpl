{{/* What ServiceMonitor and PodMonitor have in common: dict with root, and monitor, the values of one of them. */}}

{{- define "cloudstack-ccm.monitorHead" -}}
{{- $namespace := include "cloudstack-ccm.namespace" .root }}
metadata:
  name: {{ include "cloudstack-ccm.fullname" .root }}
  namespace: {{ default $namespace .monitor.namespace }}
  labels:
    {{- include "cloudstack-ccm.labelsAnd" (dict "root" .root "more" .monitor.labels) | nindent 4 }}
  {{- with .monitor.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if ne (default $namespace .monitor.namespace) $namespace }}
  namespaceSelector:
    matchNames: [{{ $namespace }}]
  {{- end }}
  selector:
    matchLabels:
      {{- include "cloudstack-ccm.selectorLabels" .root | nindent 6 }}
{{- end }}

{{- define "cloudstack-ccm.scrape" -}}
interval: {{ .monitor.interval }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
tlsConfig:
  {{- if .monitor.tlsConfig }}
  {{- toYaml .monitor.tlsConfig | nindent 2 }}
  {{- else if .root.Values.servingCertificate.secretName }}
  ca:
    secret:
      name: {{ .root.Values.servingCertificate.secretName }}
      key: {{ .root.Values.servingCertificate.caKey }}
  serverName: {{ include "cloudstack-ccm.fullname" .root }}-metrics.{{ include "cloudstack-ccm.namespace" .root }}.svc
  {{- else }}
  # The serving certificate is self-signed at every start.
  insecureSkipVerify: true
  {{- end }}
{{- with .monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
