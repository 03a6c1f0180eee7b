// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"time"
)

// auditPolicy records users, verbs and objects without bodies, so that the log holds no secret.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func (p *Plane) etcdArgs(peerPort int) []string {
	peer := fmt.Sprintf("http://%s:%d", loopback, peerPort)
	return []string{
		"--data-dir=" + p.file("etcd"),
		"--listen-client-urls=unix://" + p.file("etcd.sock"),
		// The advertised URL is not used; older versions of etcd require host:port there.
		"--advertise-client-urls=" + peer,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		// The data need not survive a crash of the machine.
		"--unsafe-no-fsync=true",
		"--log-level=warn",
	}
}

func (p *Plane) apiServerArgs(o Options) []string {
	args := []string{
		"--etcd-servers=unix://" + p.file("etcd.sock"),
		"--bind-address=" + p.Host,
		// Without it, the API server looks for the interface of the default route, which a machine without network
		// lacks.
		"--advertise-address=" + p.Host,
		fmt.Sprintf("--secure-port=%d", p.Port),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--enable-bootstrap-token-auth=true",
		"--client-ca-file=" + p.pki.path("ca.crt"),
		"--tls-cert-file=" + p.pki.path("apiserver.crt"),
		"--tls-private-key-file=" + p.pki.path("apiserver.key"),
		"--kubelet-certificate-authority=" + p.pki.path("ca.crt"),
		"--kubelet-client-certificate=" + p.pki.path("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + p.pki.path("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.pki.path("sa.pub"),
		"--service-account-signing-key-file=" + p.pki.path("sa.key"),
		"--service-cluster-ip-range=" + serviceCIDR,
	}

	if p.local() {
		// A loopback address cannot be an endpoint of the kubernetes Service.
		args = append(args, "--endpoint-reconciler-type=none", "--egress-selector-config-file="+p.file("egress.yaml"))
	}

	if o.Audit {
		args = append(args, "--audit-policy-file="+p.file("audit.yaml"), "--audit-log-path="+p.file("audit.log"),
			"--audit-log-maxsize=100000") // MB: one file, which many tests read
	}

	return args
}

func (p *Plane) controllerManagerArgs(o Options) []string {
	args := append(p.schedulerArgs("kube-controller-manager"),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+p.pki.path("sa.key"),
		"--root-ca-file="+p.pki.path("ca.crt"),
		"--cluster-signing-cert-file="+p.pki.path("ca.crt"),
		"--cluster-signing-key-file="+p.pki.path("ca.key"),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		"--allocate-node-cidrs=false",
		"--client-ca-file="+p.pki.path("ca.crt"),
	)
	if o.NodeGrace > 0 {
		// The monitor period must be well below the grace period.
		args = append(args,
			fmt.Sprintf("--node-monitor-grace-period=%s", o.NodeGrace),
			fmt.Sprintf("--node-monitor-period=%s", max(o.NodeGrace/8, 500*time.Millisecond)))
	}
	return args
}

// schedulerArgs returns the flags of the scheduler, all of which the controller manager has, too.
func (p *Plane) schedulerArgs(name string) []string {
	kubeconfig := p.file(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--secure-port=0", // nothing connects to it, and a port that was free may be taken when it starts
		"--leader-elect=false",
	}
}
