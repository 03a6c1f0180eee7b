// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"encoding/json"
	"os"
	"strings"
	"text/template"

	"github.com/csccm/csccm/test/internal/must"
)

// containerdConfig is for containerd 1.6 and 1.7, which distributions ship. The OOM
// score settings and the hugetlb settings are for machines that are containers
// themselves. Every user may bind ports below 1024, as in containerd 2.
var containerdConfig = template.Must(template.New("").Parse(`version = 2
root = "{{.Dir}}/containerd"
state = "{{.Dir}}/containerd-state"
oom_score = 0
[grpc]
  address = "{{.Dir}}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{{.Dir}}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  enable_unprivileged_ports = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{{.Dir}}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "/usr/sbin/runc"
`))

func (n *Node) writeContainerdConfig() error {
	var toml strings.Builder
	must.OK(containerdConfig.Execute(&toml, map[string]string{"Dir": n.Dir, "Pause": PauseImage}))
	return os.WriteFile(n.file("containerd.toml"), []byte(toml.String()), 0o600)
}

// writeConfigs writes the configuration files of kubelet, kube-proxy and the CNI plugins.
func (n *Node) writeConfigs() error {
	files := map[string][]byte{}
	for name, content := range map[string]any{
		"kubelet.json": n.kubeletConfig(), "kube-proxy.json": n.proxyConfig(), "cni/10-pods.conflist": n.cniConfig(),
	} {
		files[name] = must.Get(json.MarshalIndent(content, "", "  "))
	}
	user := "system:node:" + n.Name
	files["pki/node.crt"], files["pki/node.key"] = must.Get2(n.plane.Certificate(user, []string{"system:nodes"}, n.Name, n.Address.String()))
	files["pki/ca.crt"] = n.plane.CA()
	files["kubelet.kubeconfig"] = must.Get(n.plane.KubeconfigOf(user, "system:nodes"))
	files["kube-proxy.kubeconfig"] = must.Get(n.plane.KubeconfigOf("system:kube-proxy"))
	for name, content := range files {
		must.OK(os.WriteFile(n.file(name), content, 0o600))
	}
	return nil
}

func (n *Node) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"failCgroupV1": false, "failSwapOn": false,
		"cgroupDriver": "cgroupfs", "cgroupRoot": "/" + n.cgroup,
		"containerRuntimeEndpoint": "unix://" + n.file("containerd.sock"),
		"staticPodPath":            n.file("manifests"),
		"clusterDNS":               []string{"10.96.0.10"}, "clusterDomain": "cluster.local",
		"tlsCertFile": n.file("pki/node.crt"), "tlsPrivateKeyFile": n.file("pki/node.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": n.file("pki/ca.crt")},
		},
		"authorization":          map[string]any{"mode": "Webhook"},
		"enforceNodeAllocatable": []string{"pods"},
		// The fill level of the machine's disk must not evict Pods or remove images.
		"evictionHard":                map[string]any{"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
		"imageGCHighThresholdPercent": 100,
		// Short, for tests that wait until a node is marked not ready.
		"nodeStatusUpdateFrequency": "2s", "nodeLeaseDurationSeconds": 8,
	}
}

func (n *Node) proxyConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection": map[string]any{"kubeconfig": n.file("kube-proxy.kubeconfig")},
		"hostnameOverride": n.Name, "mode": "nftables", "clusterCIDR": clusterRange,
		// Leaves the connection tracking settings of the machine unchanged.
		"conntrack":          map[string]any{"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"healthzBindAddress": "0.0.0.0:10256", "metricsBindAddress": "127.0.0.1:10249",
	}
}

func (n *Node) cniConfig() map[string]any {
	return map[string]any{
		"cniVersion": "0.4.0", "name": "pods", "plugins": []map[string]any{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": n.file("ipam"),
					"ranges": [][]map[string]any{{{"subnet": n.podRange().String()}}},
					"routes": []map[string]any{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	}
}
