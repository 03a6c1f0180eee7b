// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import corev1 "k8s.io/api/core/v1"

// Chart is a version of the driver's chart.
type Chart struct {
	Repository string // of charts
	Name       string
	Version    string
	Tag        string // in the driver's Git repository, of which the chart was packed
	Digest     string // of the content, as helm.Chart.Digest returns it
}

// Pinned is the chart that csccm installs unless it is told another. To move it, set CSCCM_CSI_CHART to the new chart's
// folder at its tag and run `go test ./installer/commands/install -run TestPinnedChart`, which says the digest.
var Pinned = Chart{
	Repository: "https://cloudstack.github.io/cloudstack-csi-driver",
	Name:       "cloudstack-csi",
	Version:    "3.0.1",
	Tag:        "cloudstack-csi-3.0.1",
	Digest:     "sha256:bc2d9d293150fb25ef51456b377c20751da2d52eaff8afb3371d7f272f4ce02e",
}

// Ref returns the reference that Helm charts are loaded by.
func (c Chart) Ref() string { return c.Repository + "/" + c.Name }

const (
	// Release is the name of the Helm release with which csccm installs the driver. It is not the name that the driver's
	// own instructions use: a release of that name is somebody else's.
	Release = "csccm-csi"
	// ConfigKey is the key of the controller's Secret that holds the driver's cloud-config.
	ConfigKey = "csi-cloud-config"

	configDir = "/etc/config" // where the chart mounts the Secret
	caDir     = "/etc/cloudstack-ca"
)

// Setting is what the values of the driver's chart depend on.
type Setting struct {
	Secret      string // with ConfigKey
	ControlNode bool   // a node has the label of the control plane
	KubeletDir  string // of the kubelets; "" means the chart's
	CAConfigMap string // with the certificates to trust for the API; "" if there is none
	CAKey       string // of CAConfigMap
}

// ControlLabel is the label of nodes on which the chart's controller runs.
const ControlLabel = "node-role.kubernetes.io/control-plane"

// Values returns the values with which the driver works beside the controller. They hold no secret.
func Values(s Setting) map[string]any {
	// Both parts of the driver read the file that the last such argument names.
	config := []any{"--cloudstack-config=" + configDir + "/" + ConfigKey}
	controller := map[string]any{"extraArgs": config}
	node := map[string]any{"extraArgs": config}
	if !s.ControlNode {
		// The chart's own terms require the label, so no Pod of the driver's controller would ever run.
		terms := []any{map[string]any{"matchExpressions": []any{map[string]any{"key": corev1.LabelOSStable, "operator": "Exists"}}}}
		controller["affinity"] = map[string]any{"nodeAffinity": map[string]any{
			"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": terms},
		}}
	}
	if s.KubeletDir != "" {
		node["kubeletPath"] = s.KubeletDir
	}
	// The driver looks for the VM's id where cloud-init and Ignition leave it, and else for a VM by the node's name. The
	// chart mounts one of the two folders, and Pods do not start on nodes without it. These mounts fit all nodes.
	metadata := map[string]string{"cloud-init": "/run/cloud-init", "ignition": "/run/metadata"}
	var volumes, mounts []any
	for _, name := range []string{"cloud-init", "ignition"} {
		volumes = append(volumes, map[string]any{
			"name": name, "hostPath": map[string]any{"path": metadata[name], "type": "DirectoryOrCreate"},
		})
		mounts = append(mounts, map[string]any{"name": name, "mountPath": metadata[name], "readOnly": true})
	}
	node["metadataSource"] = ""
	if s.CAConfigMap != "" {
		// The driver's cloud-config has no ca-file. Go reads this variable.
		env := []any{map[string]any{"name": "SSL_CERT_FILE", "value": caDir + "/" + s.CAKey}}
		volume := map[string]any{"name": "cloudstack-ca", "configMap": map[string]any{"name": s.CAConfigMap}}
		mount := map[string]any{"name": "cloudstack-ca", "mountPath": caDir, "readOnly": true}
		controller["env"], node["env"] = env, env
		controller["volumes"], controller["volumeMounts"] = []any{volume}, []any{mount}
		volumes, mounts = append(volumes, volume), append(mounts, mount)
	}
	node["volumes"], node["volumeMounts"] = volumes, mounts
	return map[string]any{
		"secret":     map[string]any{"enabled": true, "create": false, "name": s.Secret},
		"controller": controller,
		"node":       node,
		// A Job that makes StorageClasses cannot be changed, so it would stop upgrades, and what it made would stay.
		"syncer": map[string]any{"enabled": false},
	}
}
