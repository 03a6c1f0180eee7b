{{/* What the Pods of the controller and of `helm test` have in common. */}}

{{/* Proxies and the user's variables. NO_PROXY keeps calls to the API server away from a proxy in extraEnv. */}}
{{- define "cloudstack-ccm.env" -}}
{{- $names := list -}}
{{- range .Values.extraEnv -}}{{- $names = append $names (toString .name | upper) -}}{{- end -}}
{{- $proxied := or .Values.proxy.https .Values.proxy.noProxy (has "HTTP_PROXY" $names) (has "HTTPS_PROXY" $names) -}}
{{- with .Values.proxy.https }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- if and $proxied (not (has "NO_PROXY" $names)) }}
- name: NO_PROXY
  value: {{ printf "%s,$(KUBERNETES_SERVICE_HOST),localhost,127.0.0.1,::1,.svc,.cluster.local" (default "" .Values.proxy.noProxy) | trimPrefix "," | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Where and how Pods run. */}}
{{- define "cloudstack-ccm.podSettings" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
hostNetwork: {{ .Values.hostNetwork }}
# The cluster's DNS may need an initialised node, so with hostNetwork the node's own resolver is used.
dnsPolicy: {{ default (ternary "Default" "ClusterFirst" .Values.hostNetwork) .Values.dnsPolicy }}
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
# A folder, not a file: a running Pod does not see changes of a file that is mounted by subPath.
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
      - {key: ca.crt, path: ca.crt}
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

{{- define "cloudstack-ccm.healthz" -}}
httpGet:
  path: /healthz
  port: https
  scheme: HTTPS
{{- end }}

{{/* Flags. One with an empty value is left out, so that the controller uses its default. */}}
{{- define "cloudstack-ccm.flags" -}}
{{- $all := not .Values.controllers -}}
bind-address: {{ .Values.bindAddress | quote }}
cluster-name: {{ .Values.clusterName | quote }}
cluster-id: {{ .Values.clusterID | quote }}
controllers: {{ join "," .Values.controllers | quote }}
drift-period: {{ .Values.driftPeriod | quote }}
provider-id-format: {{ .Values.providerIDFormat | quote }}
instance-type-format: {{ .Values.instanceTypeFormat | quote }}
adopt-nodes: {{ and .Values.adoptNodes (or $all (has "cloud-node-controller" .Values.controllers)) }}
register-cluster: {{ .Values.registerCluster | quote }}
load-balancer-policy: {{ .Values.loadBalancers.policy | quote }}
load-balancer-mode: {{ .Values.loadBalancers.mode | quote }}
load-balancer-class: {{ .Values.loadBalancers.class | quote }}
load-balancer-classless: {{ .Values.loadBalancers.classless }}
manage-network-acls: {{ ternary "" "'false'" .Values.loadBalancers.manageNetworkACLs }}
clean-orphans: {{ .Values.loadBalancers.cleanOrphans }}
node-internal-cidrs: {{ join "," .Values.nodes.internalCIDRs | quote }}
node-external-cidrs: {{ join "," .Values.nodes.externalCIDRs | quote }}
node-labels: {{ join "," .Values.nodes.labels | quote }}
node-label-tag-prefix: {{ .Values.nodes.labelTagPrefix | quote }}
# Only the node lifecycle controller sets this taint.
out-of-service-taint: {{ ternary .Values.nodes.outOfService "off" (or $all (has "cloud-node-lifecycle-controller" .Values.controllers)) | quote }}
{{- if .Values.servingCertificate.secretName }}
tls-cert-file: /etc/cloudstack-tls/tls.crt
tls-private-key-file: /etc/cloudstack-tls/tls.key
{{- end }}
{{- if .Values.caBundle.configMapName }}
ca-bundle: /etc/cloudstack-ca/ca.crt
{{- end }}
logging-format: {{ .Values.logFormat }}
{{- end }}

{{- define "cloudstack-ccm.affinity" -}}
{{- if .Values.affinity }}
{{- toYaml .Values.affinity }}
{{- else }}
nodeAffinity:
{{- if .Values.controlPlaneOnly }}
  # Required, because the kubelet of a Pod's node can read CloudStack's keys.
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
{{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
{{- end }}
{{- if eq .Values.kind "Deployment" }}
# The replicas should run on different nodes. The spread constraint alone has only the weight of the
# node preference; together with this preference it outweighs it.
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "cloudstack-ccm.selectorLabels" $ | nindent 12 }}
{{- end }}
{{- end }}
{{- end }}
