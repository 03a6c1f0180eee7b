// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet finds out whether kubelets run with --cloud-provider=external. It uses only the API server: it
// requests each kubelet's flags through the node proxy and falls back to evidence in the Node object.
package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/node"
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
}

// NodeVerdict is the verdict on one node's kubelet.
type NodeVerdict struct {
	Node    string
	Verdict Verdict
	// Evidence is ordered from strong to weak; the first entry that is not Unknown decides.
	Evidence []Evidence
	// Failure is why the kubelet's flags could not be read; "" if they were read.
	Failure Failure
	// Remedy is what to do; empty if the verdict is External.
	Remedy string
}

// Reason returns the decisive evidence in one line.
func (v NodeVerdict) Reason() string {
	for _, e := range v.Evidence {
		if e.Says == v.Verdict {
			return e.Source + ": " + e.Detail
		}
	}
	return "no evidence"
}

// Facts is the input of Judge.
type Facts struct {
	Node  *corev1.Node
	Flagz Answer
	// Distribution determines the remedy.
	Distribution cluster.Distribution
	// CloudControllerDisabled is true if a k3s or RKE2 server of the cluster runs with
	// --disable-cloud-controller: then the distribution sets --cloud-provider on no agent.
	CloudControllerDisabled bool
}

// Judge returns the verdict on one kubelet.
func Judge(f Facts) NodeVerdict {
	v := NodeVerdict{Node: f.Node.Name, Failure: f.Flagz.Failure}
	v.Evidence = slices.Concat(fromFlags("/flagz", f.Flagz), fromNodeArgs(f), fromNode(f.Node))
	v.settle(f.Distribution)
	return v
}

// settle sets verdict and remedy by the first evidence that is not Unknown.
func (v *NodeVerdict) settle(d cluster.Distribution) {
	v.Verdict, v.Remedy = Unknown, ""
	for _, e := range v.Evidence {
		if e.Says != Unknown {
			v.Verdict = e.Says
			break
		}
	}
	switch v.Verdict {
	case External:
	case NotExternal:
		v.Remedy = Remedy(d)
	case Unknown:
		v.Remedy = v.Failure.remedy()
	}
}

func fromFlags(source string, a Answer) []Evidence {
	if a.Failure != "" {
		return []Evidence{{source, strings.TrimSuffix(string(a.Failure)+": "+a.Detail, ": "), Unknown}}
	}
	value, ok := a.Flags[flagCloudProvider]
	switch {
	case !ok:
		return []Evidence{{source, "does not list --" + flagCloudProvider, Unknown}}
	case value == "external":
		return []Evidence{{source, "--cloud-provider=external", External}}
	default:
		return []Evidence{{source, fmt.Sprintf("--cloud-provider=%q", value), NotExternal}}
	}
}

const flagCloudProvider = "cloud-provider"

// argsAnnotations are the annotations in which k3s and RKE2 store the command line of a node's agent or server.
var argsAnnotations = []string{"k3s.io/node-args", "rke2.io/node-args"}

// nodeArgs parses the command line annotation, which is a JSON array.
func nodeArgs(n *corev1.Node) (annotation string, args []string) {
	for _, key := range argsAnnotations {
		raw, ok := n.Annotations[key]
		if ok && json.Unmarshal([]byte(raw), &args) == nil {
			return key, args
		}
	}
	return "", nil
}

// disablesCloudController reports whether a node's k3s or RKE2 was started with
// --disable-cloud-controller.
func disablesCloudController(n *corev1.Node) bool {
	_, args := nodeArgs(n)
	given := options(args, "--disable-cloud-controller")
	return len(given) > 0 && given[0] != "false"
}

func fromNodeArgs(f Facts) []Evidence {
	key, args := nodeArgs(f.Node)
	if key == "" {
		return nil
	}
	source := "annotation " + key
	if value, ok := kubeletArg(args, "cloud-provider"); ok {
		if value == "external" {
			return []Evidence{{source, "--kubelet-arg=cloud-provider=external", External}}
		}
		return []Evidence{{source, fmt.Sprintf("--kubelet-arg=cloud-provider=%s", value), NotExternal}}
	}
	if names := options(args, "--cloud-provider-name"); len(names) > 0 { // RKE2 passes its value to the kubelet too
		name := names[len(names)-1]
		e := Evidence{source, "--cloud-provider-name=" + name, Unknown}
		if name == string(External) {
			e.Says = External
		}
		return []Evidence{e}
	}
	if f.CloudControllerDisabled || disablesCloudController(f.Node) {
		return []Evidence{{source, "--disable-cloud-controller without --kubelet-arg=cloud-provider=external", NotExternal}}
	}
	return []Evidence{{source, "the built-in cloud controller is on, which starts kubelets as external", External}}
}

// options returns the values of all --name=VALUE and --name VALUE.
func options(args []string, name string) (values []string) {
	for i, a := range args {
		if v, joined := strings.CutPrefix(a, name+"="); joined {
			values = append(values, v)
		} else if a == name {
			values = append(values, append(args, "")[i+1])
		}
	}
	return values
}

// kubeletArg finds --kubelet-arg=NAME=VALUE or --kubelet-arg NAME=VALUE; the last one counts.
func kubeletArg(args []string, name string) (value string, ok bool) {
	for _, arg := range options(args, "--kubelet-arg") {
		if n, v, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// fromNode returns the evidence in the Node object.
func fromNode(n *corev1.Node) []Evidence {
	var out []Evidence
	if ip, ok := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; ok {
		out = append(out, Evidence{
			"annotation " + cloudproviderapi.AnnotationAlphaProvidedIPAddr,
			ip + "; only a kubelet with --cloud-provider=external keeps it", External,
		})
	}
	for _, t := range n.Spec.Taints {
		if t.Key != cloudproviderapi.TaintExternalCloudProvider {
			continue
		}
		e := Evidence{"taint " + t.Key, fmt.Sprintf("effect %s; kubelets set NoSchedule, so it was set by hand or by csccm", t.Effect), Unknown}
		if t.Effect == corev1.TaintEffectNoSchedule && t.Value == "true" {
			e.Detail, e.Says = "set when the kubelet registered", External
		}
		out = append(out, e)
	}
	out = append(out, fromManagedFields(n)...)
	if onlyHostname(n.Status.Addresses) {
		out = append(out, Evidence{"addresses", "host name only: the kubelet leaves the rest to a cloud provider", External})
	}
	if _, kind, err := node.ParseProviderID(n.Spec.ProviderID); err == nil && kind != node.KindNone {
		out = append(out, Evidence{"providerID", n.Spec.ProviderID + "; says who initialised the node once, not how its kubelet runs now", Unknown})
	}
	return out
}

// fromManagedFields returns evidence from the last writer of the addresses; status.addresses is an atomic list, so
// it has one manager. A kubelet with --cloud-provider=external writes a host name, and an InternalIP only with
// --node-ip, which the annotation shows. In k3s the kubelet and the built-in cloud controller are one process and use
// the same manager name; if that controller runs, kubelets are external and have a --node-ip.
func fromManagedFields(n *corev1.Node) []Evidence {
	if !WritesAddresses(n) || onlyHostname(n.Status.Addresses) || len(n.Status.Addresses) == 0 {
		return nil
	}
	if _, told := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; told {
		return nil
	}
	return []Evidence{{"managedFields", "the kubelet writes the node's addresses itself", NotExternal}}
}

// WritesAddresses reports whether the kubelet was the last writer of the node's addresses. The field manager is the
// name of the program: k3s servers and agents contain the kubelet; RKE2 runs the kubelet as a program of its own.
func WritesAddresses(n *corev1.Node) bool {
	manager, at := "", time.Time{}
	for _, m := range n.ManagedFields {
		if m.FieldsV1 == nil || !strings.Contains(m.FieldsV1.GetRawString(), `"f:addresses"`) {
			continue
		}
		if when := ptr.Deref(m.Time, metav1.Time{}).Time; manager == "" || when.After(at) {
			manager, at = m.Manager, when
		}
	}
	return manager == "kubelet" || manager == "k3s"
}

func onlyHostname(addresses []corev1.NodeAddress) bool {
	for _, a := range addresses {
		if a.Type != corev1.NodeHostName {
			return false
		}
	}
	return len(addresses) > 0
}

// Remedy returns how to start kubelets of a distribution with --cloud-provider=external.
func Remedy(d cluster.Distribution) string {
	switch d {
	case cluster.Kubeadm:
		return "append --cloud-provider=external to KUBELET_KUBEADM_ARGS in /var/lib/kubelet/kubeadm-flags.env and run `systemctl restart kubelet`; " +
			"for new nodes set nodeRegistration.kubeletExtraArgs: [{name: cloud-provider, value: external}] in the kubeadm configuration"
	case cluster.K3s:
		return "start k3s with --kubelet-arg=cloud-provider=external on servers and agents, and on servers also with --disable-cloud-controller and --disable=servicelb"
	case cluster.RKE2:
		return "set in /etc/rancher/rke2/config.yaml: `disable-cloud-controller: true` (servers) and `kubelet-arg: [cloud-provider=external]` (all nodes), then restart RKE2"
	case cluster.K0s:
		return "start the worker with --enable-cloud-provider (k0s install worker --enable-cloud-provider)"
	case cluster.Talos:
		return "set cluster.externalCloudProvider.enabled: true in the machine configuration"
	case cluster.CKS:
		return "CKS starts kubelets without it: set the chart value adoptNodes=true (csccm install does so), and the controller initialises such nodes; " +
			"or append --cloud-provider=external to KUBELET_EXTRA_ARGS in /etc/default/kubelet and run `systemctl restart kubelet`"
	case cluster.ClusterAPI:
		return "add cloud-provider: external to nodeRegistration.kubeletExtraArgs in the KubeadmControlPlane and the KubeadmConfigTemplates; machines get it when they are rolled"
	case cluster.Unknown:
	}
	return "start the kubelet with --cloud-provider=external and restart it"
}

// RunsCloudController reports whether a node is a k3s or RKE2 server that runs the distribution's built-in
// cloud controller.
func RunsCloudController(n *corev1.Node) bool {
	_, args := nodeArgs(n)
	return len(args) > 0 && args[0] == "server" && !disablesCloudController(n) && !slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "--cloud-provider-name")
	})
}
