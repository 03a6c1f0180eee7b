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

{{- define "cloudstack-ccm.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "cloudstack-ccm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
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
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
