// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/testenv/source"
)

// TestDecisionsArePure: a function that judges facts cannot read more facts.
func TestDecisionsArePure(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`^"(context|os|os/.*|net|net/.*|k8s\.io/client-go/.*|.*/errgroup)"$`)
	seen := 0
	for path, file := range source.Files(t, ".") {
		if strings.Contains(path, "/") {
			continue // ckscheck and inspect read
		}
		seen++
		for _, i := range file.Imports {
			require.NotRegexp(t, forbidden, i.Path.Value, path)
		}
	}
	require.Greater(t, seen, 10)
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// facts returns the facts of a run at this time.
func facts(change ...func(f *Facts)) *Facts {
	f := &Facts{At: now}
	f.Release, f.Namespace = "r", "kube-system"
	for _, c := range change {
		c(f)
	}
	return f
}

// changes adapt facts to a test case.
type changes []func(*Facts)

func ofNodes(nodes ...corev1.Node) func(*Facts) { return func(f *Facts) { f.Nodes = nodes } }

func ofVMs(vms *inventory.VMSnapshot) func(*Facts) { return func(f *Facts) { f.VMs = vms } }

func failing(s Source, err error) func(*Facts) { return func(f *Facts) { f.Fail(s, err) } }

// expect is the expected result of a decision. An outcome of "" is the check's own severity.
type expect struct {
	outcome Outcome
	message string   // part of the message
	objects []string // "Kind name: part of the message"
}

// skips, unknown, passes, warns and fails expect an outcome; fails that of the check's own severity.
func skips(message string) expect { return expect{Skipped, message, nil} }

func unknown(message string) expect { return expect{Unknown, message, nil} }

func passes(message string, objects ...string) expect { return expect{OK, message, objects} }

func warns(message string, objects ...string) expect { return expect{Warning, message, objects} }

func fails(message string, objects ...string) expect { return expect{"", message, objects} }

// judge runs the decision of a check on facts.
func judge(t *testing.T, code string, change ...func(*Facts)) Finding {
	t.Helper()
	c := Find(All(), func(c *Check) bool { return c.Code == code })
	require.NotNil(t, c, code)
	return c.Judge(facts(change...))
}

// of checks the decision of a check on facts.
func (e expect) of(t *testing.T, code string, change ...func(*Facts)) Finding {
	t.Helper()
	f := judge(t, code, change...)
	require.Equal(t, e.outcome, f.Outcome, "%+v", f)
	require.Contains(t, f.Message, e.message)
	require.NotContains(t, f.Message, "%!", "a format that does not fit")
	require.Len(t, f.Objects, len(e.objects), "%+v", f.Objects)
	for i, want := range e.objects {
		name, part, _ := strings.Cut(want, ": ")
		require.Equal(t, name, f.Objects[i].String())
		require.Contains(t, f.Objects[i].Message, part)
		require.NotContains(t, f.Objects[i].Message, "%!")
	}
	return f
}

// nodeWith makes a Ready node with a heartbeat now.
func nodeWith(name string, change ...func(n *corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:              name,
		CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		Labels:            map[string]string{},
		Annotations:       map[string]string{},
	}}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(now)},
	}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = "v1.37.1", "linux"
	for _, c := range change {
		c(&n)
	}
	return n
}

func notReadyNode(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

const (
	idA = "aaaaaaaa-0000-4000-8000-000000000001"
	idB = "bbbbbbbb-0000-4000-8000-000000000002"
	idC = "cccccccc-0000-4000-8000-000000000003"
)

func vm(id, name, ip string) cloudstack.VirtualMachine {
	return cloudstack.VirtualMachine{
		ID: id, Name: name, State: cloudstack.VMRunning, ZoneName: "zone-1",
		NICs: []cloudstack.NIC{{NetworkID: "net-1", NetworkName: "k8s-net", Default: true, IPv4: ip}},
	}
}

func snapshot(vms ...cloudstack.VirtualMachine) *inventory.VMSnapshot {
	return inventory.NewVMSnapshot(now, inventory.Scope{}, vms)
}

func threeVMs(f *Facts) {
	f.VMs = snapshot(vm(idA, "a", "10.1.1.11"), vm(idB, "b", "10.1.1.12"), vm(idC, "c", "10.1.1.13"))
}

func providerID(id string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.ProviderID = id }
}

func csError(kind cloudstack.Kind, text string) error {
	return &cloudstack.Error{Kind: kind, Command: "listX", Text: text}
}

func event(kind, name, component, reason, level string, ago time.Duration) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "default", Name: name, UID: types.UID(uidWeb)},
		Type:           level,
		Reason:         reason,
		Message:        "a message\nin two lines",
		Source:         corev1.EventSource{Component: component},
		LastTimestamp:  metav1.NewTime(now.Add(-ago)),
	}
}
