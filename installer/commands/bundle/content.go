// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// What a bundle holds of each kind of object is listed here, field by field: what is not listed stays in
// the cluster, whatever a later version of Kubernetes puts into its objects.

type nodeEntry struct {
	Name       string            `json:"name"`
	Created    time.Time         `json:"created"`
	ProviderID string            `json:"providerID"`
	Labels     map[string]string `json:"labels"`
	NodeIP     string            `json:"providedNodeIP"`
	Taints     []string          `json:"taints"`
	Addresses  []string          `json:"addresses"`
	Conditions []string          `json:"conditions"`
	Kubelet    string            `json:"kubeletVersion"`
	OS         string            `json:"os"`
	Runtime    string            `json:"runtime"`
	VM         *vmEntry          `json:"vm"`
	// Verdict is how its kubelet runs, with the evidence.
	Verdict  kubelet.Verdict    `json:"verdict"`
	Evidence []kubelet.Evidence `json:"evidence"`
}

type vmEntry struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Zone     string   `json:"zone"`
	Offering string   `json:"serviceOffering"`
	NICs     []string `json:"nics"`
}

// nodeLabels are those that a cloud controller manager writes or reads.
var nodeLabels = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable, corev1.LabelNodeExcludeBalancers,
	corev1.LabelOSStable, corev1.LabelArchStable, "node-role.kubernetes.io/control-plane",
}

const providedNodeIP = "alpha.kubernetes.io/provided-node-ip"

func nodeEntries(f *check.Facts) []nodeEntry {
	verdicts := map[string]kubelet.NodeVerdict{}
	for _, v := range f.Kubelets {
		verdicts[v.Node] = v
	}
	out := []nodeEntry{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		info := n.Status.NodeInfo
		e := nodeEntry{
			Name: n.Name, Created: n.CreationTimestamp.UTC(), ProviderID: n.Spec.ProviderID, Labels: map[string]string{}, NodeIP: n.Annotations[providedNodeIP],
			Kubelet: info.KubeletVersion, OS: info.OSImage, Runtime: info.ContainerRuntimeVersion,
			Verdict: verdicts[n.Name].Verdict, Evidence: verdicts[n.Name].Evidence,
		}
		for _, key := range nodeLabels {
			if v, there := n.Labels[key]; there {
				e.Labels[key] = v
			}
		}
		for _, t := range n.Spec.Taints {
			e.Taints = append(e.Taints, t.Key+":"+string(t.Effect))
		}
		for _, a := range n.Status.Addresses {
			e.Addresses = append(e.Addresses, fmt.Sprintf("%s %s", a.Type, a.Address))
		}
		for _, c := range n.Status.Conditions {
			e.Conditions = append(e.Conditions, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
		}
		if vm, known := f.VM(n); known {
			e.VM = &vmEntry{ID: vm.ID, Name: vm.Name, State: string(vm.State), Zone: vm.ZoneName, Offering: vm.ServiceOfferingName}
			for _, nic := range vm.NICs {
				e.VM.NICs = append(e.VM.NICs, strings.TrimSpace(fmt.Sprintf("network %s default=%t %s %s", nic.NetworkID, nic.Default, nic.IPv4, nic.IPv6)))
			}
		}
		out = append(out, e)
	}
	return out
}

type serviceEntry struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	UID         string            `json:"uid"`
	Created     time.Time         `json:"created"`
	Deleting    bool              `json:"deleting"`
	Annotations map[string]string `json:"annotations"`
	Ports       []string          `json:"ports"`
	Policy      string            `json:"externalTrafficPolicy"`
	Ranges      int               `json:"sourceRanges"` // how many
	Addresses   []string          `json:"addresses"`
	Finalizers  []string          `json:"finalizers"`
	Conditions  []string          `json:"conditions"`
}

// ourAnnotations are the beginnings of the annotations that the controller reads and writes.
var ourAnnotations = []string{"service.beta.kubernetes.io/cloudstack-", "csccm.io/"}

func serviceEntries(f *check.Facts) []serviceEntry {
	out := []serviceEntry{}
	for i := range f.Services {
		s := &f.Services[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		e := serviceEntry{
			Namespace: s.Namespace, Name: s.Name, UID: string(s.UID), Created: s.CreationTimestamp.UTC(), Deleting: s.DeletionTimestamp != nil,
			Policy: string(s.Spec.ExternalTrafficPolicy), Ranges: len(s.Spec.LoadBalancerSourceRanges), Finalizers: s.Finalizers,
		}
		e.Annotations = listedAnnotations(s)
		for _, p := range s.Spec.Ports {
			e.Ports = append(e.Ports, fmt.Sprintf("%d/%s -> %d", p.Port, p.Protocol, p.NodePort))
		}
		for _, in := range s.Status.LoadBalancer.Ingress {
			e.Addresses = append(e.Addresses, in.IP+in.Hostname)
		}
		for _, c := range s.Status.Conditions {
			e.Conditions = append(e.Conditions, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
		}
		out = append(out, e)
	}
	return out
}

func listedAnnotations(s *corev1.Service) map[string]string {
	out := map[string]string{}
	for k, v := range s.Annotations {
		if slices.ContainsFunc(ourAnnotations, func(p string) bool { return strings.HasPrefix(k, p) }) {
			out[k] = v
		}
	}
	return out
}

// listedServices are the Services with what the page may show of them.
func listedServices(services []corev1.Service) []corev1.Service {
	out := slices.Clone(services)
	for i := range out {
		out[i].Annotations = listedAnnotations(&out[i])
		out[i].Spec.LoadBalancerSourceRanges = nil
	}
	return out
}

type ruleEntry struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	PublicIP    string   `json:"publicIp"`
	PublicPort  int      `json:"publicPort"`
	PrivatePort int      `json:"privatePort"`
	State       string   `json:"state"`
	Algorithm   string   `json:"algorithm"`
	Members     []string `json:"members"`
}

func ruleEntries(f *check.Facts) []ruleEntry {
	out, members := []ruleEntry{}, f.Members()
	for i := range f.Rules {
		r := &f.Rules[i]
		e := ruleEntry{ID: r.ID, Name: r.Name, PublicIP: r.PublicIP, State: r.State, Algorithm: r.Algorithm, PublicPort: r.PublicPort, PrivatePort: r.PrivatePort}
		for _, id := range members[r.ID] {
			if f.VMs != nil {
				if vm, known := f.VMs.ByID(id); known {
					id = vm.Name
				}
			}
			e.Members = append(e.Members, id)
		}
		out = append(out, e)
	}
	return out
}

type forwardEntry struct {
	ID          string `json:"id"`
	PublicIP    string `json:"publicIp"`
	Protocol    string `json:"protocol"`
	PublicPort  int    `json:"publicPort"`
	PrivatePort int    `json:"privatePort"`
	VM          string `json:"vm"`
	Ranges      int    `json:"sourceRanges"` // how many
	State       string `json:"state"`
}

// forwardEntries are the port forwardings on the addresses of Services.
func forwardEntries(f *check.Facts) []forwardEntry {
	shown := map[string]bool{}
	for i := range f.Services {
		for _, in := range f.Services[i].Status.LoadBalancer.Ingress {
			shown[in.IP] = true
		}
	}
	out := []forwardEntry{}
	for i := range f.Forwards {
		r := &f.Forwards[i]
		if shown[r.PublicIP] {
			out = append(out, forwardEntry{
				ID: r.ID, PublicIP: r.PublicIP, Protocol: r.Protocol, PublicPort: r.StartPort, PrivatePort: r.PrivatePort, VM: r.VMName,
				Ranges: len(r.CIDRs), State: r.State,
			})
		}
	}
	return out
}

type podEntry struct {
	Name       string   `json:"name"`
	Node       string   `json:"node"`
	Phase      string   `json:"phase"`
	Containers []string `json:"containers"`
}

func podEntries(f *check.Facts) []podEntry {
	out := []podEntry{}
	for i := range f.Pods {
		p := &f.Pods[i]
		e := podEntry{Name: p.Name, Node: p.Spec.NodeName, Phase: string(p.Status.Phase)}
		for j := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[j]
			state := "running"
			switch {
			case s.State.Waiting != nil:
				state = "waiting: " + s.State.Waiting.Reason
			case s.State.Terminated != nil:
				state = fmt.Sprintf("ended with %d: %s", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
			}
			e.Containers = append(e.Containers, fmt.Sprintf("%s image %s ready=%t restarts=%d %s", s.Name, s.Image, s.Ready, s.RestartCount, state))
		}
		out = append(out, e)
	}
	return out
}

type eventEntry struct {
	At      time.Time `json:"when"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Object  string    `json:"object"`
	Source  string    `json:"source"`
	Count   int32     `json:"count"`
	Message string    `json:"message"`
}

// cloudSources are the components whose Events are about what this product does.
var cloudSources = []string{"service-controller", "cloud-node-controller", "cloud-node-lifecycle-controller", "cloudstack-cloud-controller-manager", "cloud-controller-manager"}

func listedEvent(e *corev1.Event) bool {
	return slices.Contains(cloudSources, cmp.Or(e.Source.Component, e.ReportingController))
}

func listedEvents(events []corev1.Event) []corev1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool { return !listedEvent(&e) })
}

func eventEntries(f *check.Facts) []eventEntry {
	out := []eventEntry{}
	for i := range f.Events {
		e := &f.Events[i]
		if !listedEvent(e) {
			continue
		}
		source := cmp.Or(e.Source.Component, e.ReportingController)
		at := e.LastTimestamp.Time
		if at.IsZero() {
			at = e.EventTime.Time
		}
		out = append(out, eventEntry{
			At: at.UTC(), Type: e.Type, Reason: e.Reason, Source: source, Count: e.Count, Message: e.Message,
			Object: strings.TrimPrefix(fmt.Sprintf("%s %s/%s", e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name), "/"),
		})
	}
	slices.SortStableFunc(out, func(a, b eventEntry) int { return a.At.Compare(b.At) })
	return out
}

// logValues are the keys of log lines whose values are taken along.
var logValues = []string{
	"err", "error", "remedy", "retryIn", "scope", "node", "nodes", "vm", "service", "action", "zone", "hint", "lease", "identity", "reason", "type",
	"object", "controller", "key", "count", "duration",
}

// logText writes the lines of a log with the values that may leave the cluster.
func logText(lines []podlog.Line) string {
	var b strings.Builder
	for i := range lines {
		l := &lines[i]
		fmt.Fprintf(&b, "%s %c %s] %s", l.At.UTC().Format(time.RFC3339), l.Level, l.Source, terminal.Line(l.Message))
		for _, v := range l.Values {
			text := "..."
			if slices.Contains(logValues, v.Key) {
				text = fmt.Sprintf("%q", v.Text)
			}
			fmt.Fprintf(&b, " %s=%s", v.Key, text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
