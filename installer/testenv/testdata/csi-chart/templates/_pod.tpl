{{- define "pod" -}}
containers:
  - name: driver
    image: {{ .root.Values.image }}
    command: [/cloudstack-csi-driver]
    args:
      - --listen=$(POD_IP):8090
      {{- range .args }}
      - {{ . }}
      {{- end }}
    env:
      - name: POD_IP
        valueFrom:
          fieldRef: {fieldPath: status.podIP}
    volumeMounts:
      - {name: cloud-config, mountPath: /etc/config, readOnly: true}
    readinessProbe:
      httpGet: {path: /readyz, port: 8090}
      periodSeconds: 1
volumes:
  - name: cloud-config
    secret:
      secretName: {{ .root.Values.secret.name }}
{{- end -}}
