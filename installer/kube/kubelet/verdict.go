// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet finds out whether kubelets run with --cloud-provider=external. It uses only the API server: it
// requests each kubelet's flags through the node proxy and falls back to evidence in the Node object.
package kubelet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// Verdict is whether a kubelet runs with --cloud-provider=external.
type Verdict string

// Verdicts.
const (
	External    Verdict = "external"
	NotExternal Verdict = "not-external"
	Unknown     Verdict = "unknown"
)

// Evidence is one observation. Says is the verdict that it proves, or Unknown if it proves nothing.
type Evidence struct {
	Source string // /flagz, probe Pod, annotation ..., managedFields, taint ...
	Detail string
	Says   Verdict

	fix string // what to do if the kubelet's flags could not be read
}

// NodeVerdict is the verdict on one node's kubelet.
type NodeVerdict struct {
	Node    string
	Verdict Verdict
	// Evidence is ordered from strong to weak; the first entry that is not Unknown decides.
	Evidence []Evidence
	// Remedy is what to do; empty if the verdict is External.
	Remedy string
}

// Reason returns the decisive evidence in one line.
func (v NodeVerdict) Reason() string {
	i := slices.IndexFunc(v.Evidence, func(e Evidence) bool { return e.Says == v.Verdict })
	if i < 0 {
		return "no evidence"
	}
	return v.Evidence[i].Source + ": " + v.Evidence[i].Detail
}

// Facts is the input of Judge.
type Facts struct {
	Node  *corev1.Node
	Flagz Evidence
	// Distribution determines the remedy.
	Distribution cluster.Distribution
	// CloudControllerDisabled is true if a k3s or RKE2 server of the cluster runs with --disable-cloud-controller. The
	// distribution then sets --cloud-provider on no agent.
	CloudControllerDisabled bool
}

// Judge returns the verdict on one kubelet.
func Judge(f Facts) NodeVerdict {
	v := NodeVerdict{Node: f.Node.Name, Evidence: slices.Concat([]Evidence{f.Flagz}, fromNodeArgs(f), fromNode(f.Node))}
	v.settle(f.Distribution)
	return v
}

// settle sets verdict and remedy by the first evidence that is not Unknown.
func (v *NodeVerdict) settle(d cluster.Distribution) {
	fix := fixLook
	v.Verdict = Unknown
	for _, e := range v.Evidence {
		if v.Verdict == Unknown {
			v.Verdict = e.Says
		}
		fix = cmp.Or(e.fix, fix)
	}
	v.Remedy = map[Verdict]string{NotExternal: remedies[d], Unknown: fix}[v.Verdict]
}

// fromFlags returns the evidence of a kubelet's flags.
func fromFlags(source string, flags map[string]string) Evidence {
	value, ok := flags[flagCloudProvider]
	switch {
	case !ok:
		return Evidence{Source: source, Detail: "does not list --" + flagCloudProvider, Says: Unknown}
	case value == "external":
		return Evidence{Source: source, Detail: "--cloud-provider=external", Says: External}
	}
	return Evidence{Source: source, Detail: fmt.Sprintf("--cloud-provider=%q", value), Says: NotExternal}
}

const flagCloudProvider = "cloud-provider"

const k3sArgs = "k3s.io/node-args"

// nodeArgs parses the annotation in which k3s or RKE2 stores its command line as a JSON array. argv is nil if there is
// no such annotation.
func nodeArgs(n *corev1.Node) (annotation string, argv []string) {
	for _, annotation := range []string{k3sArgs, "rke2.io/node-args"} {
		if json.Unmarshal([]byte(n.Annotations[annotation]), &argv) == nil {
			return annotation, argv
		}
	}
	return "", nil
}

// RunsCloudController reports whether a node is a k3s or RKE2 server that runs the distribution's built-in
// cloud controller.
func RunsCloudController(n *corev1.Node) bool {
	_, argv := nodeArgs(n)
	_, other := cluster.Argument(argv, providerName)
	return len(argv) > 0 && argv[0] == "server" && !other && !disabled(argv)
}

// RunsServiceLB reports whether a node is a k3s server that runs ServiceLB. It runs even if the built-in cloud
// controller is disabled.
func RunsServiceLB(n *corev1.Node) bool {
	annotation, argv := nodeArgs(n)
	return annotation == k3sArgs &&
		len(argv) > 0 &&
		argv[0] == "server" &&
		!slices.ContainsFunc(each(argv, "disable"), func(list string) bool {
			return slices.Contains(strings.Split(list, ","), "servicelb")
		})
}

// each returns the values of a flag that may be given more than once.
func each(argv []string, flag string) (values []string) {
	for i := range argv {
		if value, given := cluster.Argument(argv[i:min(i+2, len(argv))], flag); given {
			values = append(values, value)
		}
	}
	return values
}

// providerName is a flag of RKE2, which RKE2 also passes to the kubelet.
const providerName = "cloud-provider-name"

// disabled reports whether k3s or RKE2 was started with --disable-cloud-controller.
func disabled(argv []string) bool {
	value, given := cluster.Argument(argv, "disable-cloud-controller")
	return given && value != "false"
}

func fromNodeArgs(f Facts) []Evidence {
	annotation, argv := nodeArgs(f.Node)
	if annotation == "" {
		return nil
	}

	e := Evidence{
		Source: "annotation " + annotation,
		Detail: "the built-in cloud controller is on, which starts kubelets as external",
		Says:   External,
	}

	if f.CloudControllerDisabled || disabled(argv) {
		e.Detail, e.Says = "--disable-cloud-controller without --kubelet-arg=cloud-provider=external", NotExternal
	}

	if provider, given := cluster.Argument(argv, providerName); given {
		e.Detail, e.Says = "--cloud-provider-name="+provider, External
		if provider != string(External) {
			e.Says = Unknown
		}
	}

	for _, arg := range each(argv, "kubelet-arg") {
		if value, found := strings.CutPrefix(strings.TrimLeft(arg, "-"), flagCloudProvider+"="); found {
			e.Detail, e.Says = "--kubelet-arg=cloud-provider="+value, External
			if value != string(External) {
				e.Says = NotExternal
			}
		}
	}

	return []Evidence{e}
}

// fromNode returns the evidence in the Node object.
func fromNode(n *corev1.Node) (out []Evidence) {
	says := func(verdict Verdict, source, detail string) {
		out = append(out, Evidence{Source: source, Detail: detail, Says: verdict})
	}
	const provided = cloudproviderapi.AnnotationAlphaProvidedIPAddr
	ip, set := n.Annotations[provided]
	if set {
		says(External, "annotation "+provided, ip+"; only a kubelet with --cloud-provider=external keeps it")
	}

	// The taint proves nothing: any kubelet with --register-with-taints can set it. A kubelet with
	// --cloud-provider=external writes a Hostname address, and an InternalIP only with --node-ip, which the annotation
	// shows. In k3s the kubelet and the built-in cloud controller are one process and share a field manager; if that
	// controller runs, kubelets are external and have a --node-ip.
	other := func(a corev1.NodeAddress) bool { return a.Type != corev1.NodeHostName }
	switch addresses := n.Status.Addresses; {
	case len(addresses) == 0:
	case !slices.ContainsFunc(addresses, other):
		says(External, "addresses", "host name only: the kubelet leaves the rest to a cloud provider")
	case !set && WritesAddresses(n):
		says(NotExternal, "managedFields", "the kubelet writes the node's addresses itself")
	}

	return out
}

// WritesAddresses reports whether the kubelet was the last writer of the node's addresses. status.addresses is an
// atomic list, so it has one field manager. The field manager is the name of the program: k3s servers and agents
// contain the kubelet, RKE2 runs it as a separate program.
func WritesAddresses(n *corev1.Node) bool {
	manager, _ := cluster.LastWritten(&n.ObjectMeta, "addresses")
	return manager == "kubelet" || manager == "k3s"
}

// remedies say how to start kubelets of a distribution with --cloud-provider=external.
var remedies = map[cluster.Distribution]string{
	cluster.Kubeadm: "append --cloud-provider=external to KUBELET_KUBEADM_ARGS in /var/lib/kubelet/kubeadm-flags.env " +
		"and run `systemctl restart kubelet`; " +
		"for new nodes set nodeRegistration.kubeletExtraArgs: [{name: cloud-provider, value: external}] in the " +
		"kubeadm configuration",
	cluster.K3s: "start k3s with --kubelet-arg=cloud-provider=external on servers and agents, and on servers also " +
		"with --disable-cloud-controller and --disable=servicelb",
	cluster.RKE2: "set in /etc/rancher/rke2/config.yaml: `disable-cloud-controller: true` (servers) and " +
		"`kubelet-arg: [cloud-provider=external]` (all nodes), then restart RKE2",
	cluster.K0s:   "start the worker with --enable-cloud-provider (k0s install worker --enable-cloud-provider)",
	cluster.Talos: "set cluster.externalCloudProvider.enabled: true in the machine configuration",
	cluster.CKS: "CKS starts kubelets without it: set the chart value adoptNodes=true (csccm install does so), and " +
		"the controller initialises such nodes; " +
		"or append --cloud-provider=external to KUBELET_EXTRA_ARGS in /etc/default/kubelet and run `systemctl " +
		"restart kubelet`",
	cluster.ClusterAPI: "add cloud-provider: external to nodeRegistration.kubeletExtraArgs in the " +
		"KubeadmControlPlane and the KubeadmConfigTemplates; machines get it when they are rolled",
	cluster.Unknown: "start the kubelet with --cloud-provider=external and restart it",
}
