{{/* The Pod of the Deployment or DaemonSet. */}}
{{- define "cloudstack-ccm.podTemplate" -}}
metadata:
  # No label that changes with the chart's version alone: it would restart the Pods.
  labels:
    {{- include "cloudstack-ccm.selectorLabels" . | nindent 4 }}
    app.kubernetes.io/component: cloud-controller-manager
    app.kubernetes.io/part-of: csccm
    {{- with include "cloudstack-ccm.podLabels" . }}
    {{- . | nindent 4 }}
    {{- end }}
  annotations:
    {{- if not (hasKey (default dict .Values.podAnnotations) "kubectl.kubernetes.io/default-container") }}
    kubectl.kubernetes.io/default-container: cloudstack-ccm
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "cloudstack-ccm.serviceAccountName" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  priorityClassName: {{ .Values.priorityClassName | quote }}
  terminationGracePeriodSeconds: {{ int64 .Values.terminationGracePeriodSeconds }}
  {{- include "cloudstack-ccm.podSettings" . | trim | nindent 2 }}
  {{- with include "cloudstack-ccm.affinity" . | trim }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with include "cloudstack-ccm.spread" . | trim }}
  topologySpreadConstraints:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: cloudstack-ccm
      image: {{ include "cloudstack-ccm.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: ["/cloudstack-ccm"]
      args:
        - --cloud-provider=external-cloudstack
        - --cloud-config=/etc/cloudstack/cloud-config
        - --leader-elect=true
        - --leader-elect-resource-name={{ .Values.leaderElection.leaseName }}
        - --leader-elect-resource-namespace={{ .Values.leaderElection.leaseNamespace }}
        - --secure-port={{ .Values.securePort }}
        # The framework's webhook server is not used; it would open a port of the node.
        - --webhook-secure-port=0
        {{- with .Values.bindAddress }}
        - --bind-address={{ . }}
        {{- end }}
        {{- with .Values.clusterName }}
        - --cluster-name={{ . }}
        {{- end }}
        {{- with .Values.clusterID }}
        - --cluster-id={{ . }}
        {{- end }}
        {{- with .Values.controllers }}
        - --controllers={{ join "," . }}
        {{- end }}
        {{- if .Values.concurrentServiceSyncs }}
        - --concurrent-service-syncs={{ int .Values.concurrentServiceSyncs }}
        {{- end }}
        {{- if .Values.concurrentNodeSyncs }}
        - --concurrent-node-syncs={{ int .Values.concurrentNodeSyncs }}
        {{- end }}
        {{- with .Values.driftPeriod }}
        - --drift-period={{ . }}
        {{- end }}
        {{- with .Values.providerIDFormat }}
        - --provider-id-format={{ . }}
        {{- end }}
        {{- with .Values.instanceTypeFormat }}
        - --instance-type-format={{ . }}
        {{- end }}
        {{- if and .Values.adoptNodes (include "cloudstack-ccm.runs" (dict "root" . "name" "cloud-node-controller")) }}
        - --adopt-nodes=true
        {{- end }}
        {{- with .Values.registerCluster }}
        - {{ printf "--register-cluster=%s" . | quote }}
        {{- end }}
        {{- with .Values.loadBalancers.policy }}
        - --load-balancer-policy={{ . }}
        {{- end }}
        {{- with .Values.loadBalancers.mode }}
        - --load-balancer-mode={{ . }}
        {{- end }}
        {{- if not .Values.loadBalancers.manageNetworkACLs }}
        - --manage-network-acls=false
        {{- end }}
        {{- if .Values.loadBalancers.cleanOrphans }}
        - --clean-orphans=true
        {{- end }}
        {{- with .Values.loadBalancers.directSuspectAfter }}
        - --direct-suspect-after={{ . }}
        {{- end }}
        - {{ printf "--tenancy=%s" (toJson .Values.tenancy) | quote }}
        {{- with .Values.nodes.internalCIDRs }}
        - --node-internal-cidrs={{ join "," . }}
        {{- end }}
        {{- with .Values.nodes.externalCIDRs }}
        - --node-external-cidrs={{ join "," . }}
        {{- end }}
        {{- with .Values.nodes.labels }}
        - --node-labels={{ join "," . }}
        {{- end }}
        {{- with .Values.nodes.labelTagPrefix }}
        - {{ printf "--node-label-tag-prefix=%s" . | quote }}
        {{- end }}
        - --node-deletion-limit={{ int .Values.nodes.deletionLimit }}
        - --node-deletion-window={{ .Values.nodes.deletionWindow }}
        {{- /* Without the life cycle of nodes the controller may not change them. */}}
        - --out-of-service-taint={{ if include "cloudstack-ccm.runs" (dict "root" . "name" "cloud-node-lifecycle-controller") }}{{ .Values.nodes.outOfService }}{{ else }}off{{ end }}
        {{- if .Values.servingCertificate.secretName }}
        - --tls-cert-file=/etc/cloudstack-tls/tls.crt
        - --tls-private-key-file=/etc/cloudstack-tls/tls.key
        {{- end }}
        {{- if .Values.caBundle.configMapName }}
        - --ca-bundle=/etc/cloudstack-ca/ca.crt
        {{- end }}
        {{- if .Values.kubeAPI.qps }}
        - --kube-api-qps={{ .Values.kubeAPI.qps }}
        {{- end }}
        {{- if .Values.kubeAPI.burst }}
        - --kube-api-burst={{ int .Values.kubeAPI.burst }}
        {{- end }}
        {{- if ne .Values.logFormat "text" }}
        - --logging-format={{ .Values.logFormat }}
        {{- end }}
        - --v={{ int .Values.logVerbosity }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        {{- with .Values.apiServer.host }}
        - name: KUBERNETES_SERVICE_HOST
          value: {{ . | quote }}
        - name: KUBERNETES_SERVICE_PORT
          value: {{ $.Values.apiServer.port | quote }}
        {{- end }}
        {{- with include "cloudstack-ccm.env" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
      ports:
        - name: https
          containerPort: {{ .Values.securePort }}
          protocol: TCP
      startupProbe:
        httpGet:
          path: /healthz
          port: https
          scheme: HTTPS
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet:
          path: /healthz
          port: https
          scheme: HTTPS
        periodSeconds: 10
        timeoutSeconds: 15
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /healthz
          port: https
          scheme: HTTPS
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      {{- with .Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "cloudstack-ccm.volumeMounts" . | nindent 8 }}
  volumes:
    {{- include "cloudstack-ccm.volumes" . | nindent 4 }}
{{- end }}

{{- define "cloudstack-ccm.affinity" -}}
{{- if .Values.affinity }}
{{- toYaml .Values.affinity }}
{{- else }}
nodeAffinity:
{{- if .Values.controlPlaneOnly }}
  # Required: the kubelet of the Pods' node may read CloudStack's keys.
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
# Two replicas on one node help nobody. The scheduler weighs the spread below like a preference for
# nodes; together with this it wins.
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

{{- define "cloudstack-ccm.spread" -}}
{{- if .Values.topologySpreadConstraints }}
{{- range .Values.topologySpreadConstraints }}
{{- $constraint := deepCopy . }}
{{- if not .labelSelector }}
{{- $_ := set $constraint "labelSelector" (dict "matchLabels" (include "cloudstack-ccm.selectorLabels" $ | fromYaml)) }}
{{- end }}
- {{ toYaml $constraint | nindent 2 | trim }}
{{- end }}
{{- else if eq .Values.kind "Deployment" }}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "cloudstack-ccm.selectorLabels" $ | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}
