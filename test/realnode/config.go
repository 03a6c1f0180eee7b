// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"bytes"
	"os"
	"path/filepath"
	"text/template"

	"github.com/csccm/csccm/test/internal/must"
)

// configs are the configuration files of a node's programs, by name.
//
// That of containerd is for containerd 1.6 and 1.7, which distributions ship. Its OOM score and hugetlb settings are
// for machines that are containers themselves. As in containerd 2, every user may bind ports below 1024.
//
// In that of the kubelet, the fill level of the machine's disk does not evict Pods or remove images, and reports are
// frequent, for tests that wait until a node is marked not ready. In that of kube-proxy, the connection tracking
// settings of the machine remain unchanged.
var configs = map[string]string{
	"containerd.toml": `version = 2
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
`,
	"kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
containerRuntimeEndpoint: unix://{{.Dir}}/containerd.sock
staticPodPath: {{.Dir}}/manifests
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
tlsCertFile: {{.Dir}}/pki/node.crt
tlsPrivateKeyFile: {{.Dir}}/pki/node.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: {{.Dir}}/pki/ca.crt}}
authorization: {mode: Webhook}
enforceNodeAllocatable: [pods]
evictionHard: {nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
`,
	"kube-proxy.yaml": `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: {{.Dir}}/kube-proxy.kubeconfig}
hostnameOverride: {{.Name}}
mode: nftables
clusterCIDR: 10.244.0.0/16
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
healthzBindAddress: 0.0.0.0:10256
metricsBindAddress: 127.0.0.1:10249
`,
	"cni/10-pods.conflist": `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "{{.Dir}}/ipam", "ranges": [[{"subnet": "{{.Pods}}"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`,
}

func (n *Node) writeConfigs() {
	values := map[string]string{
		"Dir":    n.dir,
		"Pause":  pauseImage,
		"Cgroup": n.cgroup,
		"Name":   n.Name,
		"Pods":   n.podRange().String(),
	}
	for name, text := range configs {
		var b bytes.Buffer
		must.OK(template.Must(template.New(name).Parse(text)).Execute(&b, values))
		n.write(name, b.Bytes())
	}
}

// writeKeys writes the certificate and the kubeconfigs of kubelet and kube-proxy.
func (n *Node) writeKeys() {
	user, plane := "system:node:"+n.Name, n.cluster.Plane
	crt, key := must.Get2(plane.Certificate(user, []string{"system:nodes"}, n.Name, n.Address.String()))
	n.write("pki/node.crt", crt)
	n.write("pki/node.key", key)
	n.write("pki/ca.crt", plane.CA())
	n.write("kubelet.kubeconfig", must.Get(plane.KubeconfigOf(user, "system:nodes")))
	n.write("kube-proxy.kubeconfig", must.Get(plane.KubeconfigOf("system:kube-proxy")))
}

func (n *Node) write(name string, content []byte) {
	must.OK(os.MkdirAll(filepath.Dir(n.file(name)), 0o700))
	must.OK(os.WriteFile(n.file(name), content, 0o600))
}
