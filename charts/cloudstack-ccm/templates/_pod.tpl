{{/* What the controller and the test Pod, which proves what the controller needs, have in common. */}}

{{/* env are proxies and the user's own variables. */}}
{{- define "cloudstack-ccm.env" -}}
{{- with .Values.proxy.http }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.proxy.https }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- if include "cloudstack-ccm.noProxy" . }}
- name: NO_PROXY
  value: {{ printf "%s,$(KUBERNETES_SERVICE_HOST),localhost,127.0.0.1,::1,.svc,.cluster.local" (default "" .Values.proxy.noProxy) | trimPrefix "," | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* "true" if the chart sets NO_PROXY: without it a proxy of extraEnv would get the calls to the API server too. */}}
{{- define "cloudstack-ccm.noProxy" -}}
{{- $names := list -}}
{{- range .Values.extraEnv -}}{{- $names = append $names .name -}}{{- end -}}
{{- if not (or (has "NO_PROXY" $names) (has "no_proxy" $names)) -}}
{{- range list "HTTP_PROXY" "HTTPS_PROXY" "http_proxy" "https_proxy" -}}{{- if has . $names -}}true{{- end -}}{{- end -}}
{{- if or .Values.proxy.http .Values.proxy.https .Values.proxy.noProxy -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* imagePullSecrets of the chart and of global, where other charts have names alone. */}}
{{- define "cloudstack-ccm.pullSecrets" -}}
{{- $names := list -}}
{{- range concat (default list (default dict .Values.global).imagePullSecrets) (default list .Values.imagePullSecrets) -}}
{{- $names = append $names (kindIs "map" . | ternary (dict "secret" .) (dict "secret" (dict "name" .))).secret.name -}}
{{- end -}}
{{- range uniq $names }}
- name: {{ . }}
{{- end }}
{{- end }}

{{/* What the kubelet and the nodes make of a Pod. */}}
{{- define "cloudstack-ccm.podSettings" -}}
{{- with include "cloudstack-ccm.pullSecrets" . | trim }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
hostNetwork: {{ .Values.hostNetwork }}
# The cluster's DNS may need an initialised node, so with hostNetwork the node's own resolver is used.
dnsPolicy: {{ default (ternary "Default" "ClusterFirst" .Values.hostNetwork) .Values.dnsPolicy }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "cloudstack-ccm.volumeMounts" -}}
# The folder, not the file: only so a changed Secret reaches a running Pod.
- name: cloud-config
  mountPath: /etc/cloudstack
  readOnly: true
{{- if .Values.caBundle.configMapName }}
- name: ca-bundle
  mountPath: /etc/cloudstack-ca
  readOnly: true
{{- end }}
{{- if .Values.servingCertificate.secretName }}
- name: serving-certificate
  mountPath: /etc/cloudstack-tls
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "cloudstack-ccm.volumes" -}}
- name: cloud-config
  secret:
    secretName: {{ .Values.existingSecret.name }}
    optional: false
    defaultMode: 288 # 0440
    items:
      - key: {{ .Values.existingSecret.key }}
        path: cloud-config
{{- if .Values.caBundle.configMapName }}
- name: ca-bundle
  configMap:
    name: {{ .Values.caBundle.configMapName }}
    items:
      - key: {{ .Values.caBundle.key }}
        path: ca.crt
{{- end }}
{{- if .Values.servingCertificate.secretName }}
- name: serving-certificate
  secret:
    secretName: {{ .Values.servingCertificate.secretName }}
    optional: false
    defaultMode: 288 # 0440
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end }}
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
