// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
)

func wrote(ago time.Duration, level byte, message string, values ...podlog.Value) podlog.Line {
	return podlog.Line{At: now.Add(-ago), Level: level, Source: "x.go:1", Message: message, Values: values}
}

func failedWith(text string) podlog.Value { return podlog.Value{Key: "err", Text: text} }

func TestDecideContact(t *testing.T) {
	t.Parallel()
	const lookup = "cloudstack listVirtualMachines: cannot reach the API: dial tcp: lookup cs: no such host"
	can, cannot := wrote(30*time.Minute, 'I', contactMade), wrote(time.Minute, 'E', contactFailed, failedWith(lookup))
	decide := func(lines ...podlog.Line) Finding { return Contact([]Log{{"p", lines}}, now) }
	expect{Skipped, "no Pod", nil}.verify(t, Contact(nil, now))
	waits := wrote(time.Minute, 'I', configWaits, podlog.Value{Key: "key", Text: "zone"})
	used := wrote(time.Minute, 'I', configUsed)
	expect{"", "the controller still works with the old zone", []string{"Pod p: read the cloud-config's zone"}}.verify(t, decide(can, waits, used))
	expect{OK, "", nil}.verify(t, decide(can, waits, used, used)) // the file is again what it was
	expect{Unknown, "empty", nil}.verify(t, decide())
	expect{OK, contactMade, nil}.verify(t, decide(can))
	expect{OK, "no failed call in 1 line", nil}.verify(t, decide(wrote(time.Minute, 'I', "hello")))
	f := decide(can, cannot)
	expect{"", "no such host", []string{"Pod p: 1m0s ago, 1 failed call"}}.verify(t, f)
	require.Equal(t, podNameFix, f.Remedy)
	expect{OK, contactMade, nil}.verify(t, decide(cannot, wrote(0, 'I', contactMade)))
	again := func(ago time.Duration) podlog.Line {
		return wrote(ago, 'I', contactAgain, podlog.Value{Key: "after", Text: "1m2s"})
	}
	failed := wrote(4*time.Minute, 'E', "Sync failed", failedWith(lookup))
	f = decide(can, failed, again(3*time.Minute))
	expect{OK, "reached; it was not for 1m2s, until 3m0s ago", nil}.verify(t, f)
	require.Empty(t, f.Remedy)
	f = decide(failed, again(3*time.Minute), wrote(3*time.Minute, 'I', contactMade)) // it began during the outage
	expect{OK, "reached; it was not for 1m2s, until 3m0s ago", nil}.verify(t, f)
	expect{"", "no such host", []string{"Pod p: 1m0s ago, 2 failed calls"}}.verify(t, decide(failed, again(3*time.Minute), cannot))
	expect{OK, "no failed call for 14m0s", nil}.verify(t, decide(wrote(15*time.Minute, 'E', "Sync failed", failedWith(lookup)), again(14*time.Minute)))
	expect{OK, "no failed call for 1m0s", nil}.verify(t, decide(again(time.Minute))) // the failures are in lines that were not read
	f = Contact([]Log{{"a", []podlog.Line{failed}}, {"b", []podlog.Line{can, failed, again(time.Minute)}}}, now)
	expect{"", "no such host", []string{"Pod a: 4m0s ago"}}.verify(t, f) // what one Pod reaches says nothing of another
	expect{OK, "no failed call for 20m0s", nil}.verify(t, decide(wrote(20*time.Minute, 'E', "Sync failed", failedWith(lookup))))
	expect{OK, "", nil}.verify(t, decide(wrote(time.Minute, 'E', "lock", failedWith("Get https://10.96.0.1: connect: connection refused"))))
	f = decide(wrote(time.Minute, 'E', contactFailed, failedWith("cloudstack listZones: 401"), podlog.Value{Key: "remedy", Text: "check api-key"}))
	expect{"", "401", []string{"Pod p: 0 failed calls"}}.verify(t, f)
	require.Equal(t, "check api-key", f.Remedy)
	for text, fix := range map[string]string{
		"cannot reach the API: proxyconnect tcp: dial tcp: lookup proxy": podProxyFix, "the server's certificate is not trusted: x509": podTrustFix,
		"cannot reach the API: dial tcp 192.0.2.1:443: i/o timeout": podNetworkFix, "something else": podAnyContactFx,
	} {
		require.Equal(t, fix, contactFix(text))
	}
}

// The check goes by the controller's own words.
func TestContactWords(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../pkg/provider/contact.go")
	require.NoError(t, err)
	for _, words := range []string{contactMade, contactFailed, contactAgain} {
		require.Contains(t, string(source), strconv.Quote(words))
	}
}

func TestDecideAnswers(t *testing.T) {
	t.Parallel()
	p := pod("a", true)
	probedPod := pod("b", true, func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}}}}
	})
	far := errors.New("dial tcp: i/o timeout")
	expect{Skipped, "", nil}.verify(t, Answers(nil))
	expect{OK, "1 Pod, asked", nil}.verify(t, Answers([]Answer{{Pod: &p, Health: "ok", Healthy: true, Metrics: true}}))
	expect{OK, "2 Pods, asked through the API server and by the kubelet's probe", nil}.verify(t, Answers([]Answer{
		{Pod: &p, Health: "ok", Healthy: true, Metrics: true}, {Pod: &probedPod, Err: far},
	}))
	expect{"", "1 Pod", []string{"Pod kube-system/a: no /metrics"}}.verify(t, Answers([]Answer{{Pod: &p, Health: "ok", Healthy: true}}))
	expect{"", "1 Pod", []string{"Pod kube-system/a: /healthz: [-]x"}}.verify(t, Answers([]Answer{{Pod: &p, Health: "[-]x"}}))
	expect{Unknown, "", []string{"Pod kube-system/a: i/o timeout"}}.verify(t, Answers([]Answer{{Pod: &p, Err: far}}))
}

func TestDecideAddresses(t *testing.T) {
	t.Parallel()
	initialised := func(ip, manager string) corev1.Node {
		return nodeWith("a", providerID("external-cloudstack://"+idA), func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: "a"}}
			n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:addresses":{}}}`)}}
		})
	}
	suspects := func(n ...corev1.Node) []Suspect { return SuspectAddresses(n, threeVMs(), node.AddressRules{}) }
	require.Empty(t, suspects(initialised("10.1.1.11", "kubelet"), nodeWith("b"), nodeWith("lost", providerID("x"))))
	expect{OK, "3 nodes", nil}.verify(t, Addresses(3, nil))
	expect{"", "1 node", []string{"Node a: its kubelet writes InternalIP 192.0.2.7, CloudStack has InternalIP 10.1.1.11"}}.verify(t, Addresses(1, suspects(initialised("192.0.2.7", "kubelet"))))
	s := suspects(initialised("192.0.2.7", "cloudstack-ccm"))
	expect{Warning, "1 node", []string{"Node a: has InternalIP 192.0.2.7"}}.verify(t, Addresses(1, s))
	LookAgain(s, []corev1.Node{initialised("192.0.2.8", "cloudstack-ccm")})
	expect{"", "", []string{"Node a: 15s later InternalIP 192.0.2.8"}}.verify(t, Addresses(1, s))
	s = suspects(initialised("192.0.2.7", "cloudstack-ccm"))
	LookAgain(s, []corev1.Node{initialised("10.1.1.11", "cloudstack-ccm")})
	expect{OK, "", nil}.verify(t, Addresses(1, s))
}

func TestDecideLabels(t *testing.T) {
	t.Parallel()
	zone := func(z string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = z }
	}
	volume := func(key, value string, phase corev1.PersistentVolumePhase) corev1.PersistentVolume {
		v := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		v.Status.Phase = phase
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
		}}}}
		return v
	}
	decide := func(n corev1.Node, v ...corev1.PersistentVolume) Finding {
		return Labels([]corev1.Node{n}, threeVMs(), "", v, false)
	}
	bound := corev1.VolumeBound
	expect{OK, "1 node, 0 volumes", nil}.verify(t, decide(nodeWith("a", zone("zone-1"))))
	expect{OK, "", nil}.verify(t, decide(nodeWith("a")))
	expect{Skipped, "", nil}.verify(t, decide(nodeWith("lost")))
	expect{"", "1 node", []string{"Node a: zone is mars, CloudStack says zone-1"}}.verify(t, decide(nodeWith("a", zone("mars"))))
	expect{OK, "1 volume", nil}.verify(t, decide(nodeWith("a", zone("zone-1")), volume(corev1.LabelTopologyZone, "zone-1", bound)))
	expect{OK, "", nil}.verify(t, decide(nodeWith("a", zone("zone-1")), volume("example.org/disk", "x", bound), volume(corev1.LabelTopologyZone, "gone", corev1.VolumeReleased)))
	expect{"", "1 volume", []string{"PersistentVolume v: once the nodes carry", "Node a: "}}.verify(t, decide(nodeWith("a", zone("mars")), volume(corev1.LabelTopologyZone, "mars", bound)))
	expect{"", "1 volume", []string{"PersistentVolume v: no node has it"}}.verify(t, decide(nodeWith("a", zone("zone-1")), volume(oldZone, "gone", bound)))
}

func TestDecideCKSTakenCareOf(t *testing.T) {
	t.Parallel()
	cks := Distribution{cluster.CKS, "node names"}
	named := pod("cloudstack-cloud-controller-manager-x", true)
	expect{OK, "stays away", nil}.verify(t, CKS(cks, []corev1.Pod{named}, []kubelet.NodeVerdict{{Node: "a", Verdict: kubelet.External}}))
	expect{"", "made by CKS", []string{"Node a: "}}.verify(t, CKS(cks, []corev1.Pod{named}, []kubelet.NodeVerdict{{Node: "a", Verdict: kubelet.NotExternal}}))
	expect{"", "install its own provider again", nil}.verify(t, CKS(cks, []corev1.Pod{pod("x", true)}, nil))
}

// What was said about a Service before its load balancer became ready is over; what was said after is not.
func TestSolvedErrorsAreNotOpen(t *testing.T) {
	t.Parallel()
	service := func(status metav1.ConditionStatus, ago time.Duration) []corev1.Service {
		return []corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{
				Type: service.ConditionReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
			}}},
		}}
	}
	failed := event("Service", "web", "service-controller", "SyncLoadBalancerFailed", "Warning", 10*time.Minute)
	repaired := event("Service", "web", "cloudstack-cloud-controller-manager", "DriftRepaired", "Warning", time.Minute)
	other := event("Node", "web", "cloud-node-controller", "NodeWithoutVM", "Warning", 10*time.Minute)
	line := func(service string) podlog.Line {
		return podlog.Line{At: now.Add(-10 * time.Minute), Level: 'E', Message: "could not be synced", Values: []podlog.Value{{Key: "service", Text: service}}}
	}
	lines := []podlog.Line{line("default/web"), line("default/mail")}
	for _, c := range []struct {
		name          string
		services      []corev1.Service
		events, lines int
	}{
		{"no condition", nil, 3, 2},
		{"not ready", service(metav1.ConditionFalse, time.Minute), 3, 2},
		{"ready since", service(metav1.ConditionTrue, time.Minute), 1, 1},
		{"ready before", service(metav1.ConditionTrue, 20*time.Minute), 2, 2},
	} {
		events, logs := Unsolved([]corev1.Event{failed, repaired, other}, []Log{{Pod: "p", Lines: lines}}, c.services)
		assert.Len(t, events, c.events, c.name)
		assert.Len(t, logs[0].Lines, c.lines, c.name)
	}
}
