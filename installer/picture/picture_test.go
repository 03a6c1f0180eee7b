// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/model"
)

var at = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// vms returns an inventory snapshot of these VMs.
type vms []cloudstack.VirtualMachine

func (v vms) snapshot(t testing.TB) *inventory.VMSnapshot {
	t.Helper()
	return inventory.NewVMSnapshot(at, inventory.Scope{}, v)
}

func serviceOf(i int) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", i%20),
			Name:      fmt.Sprintf("web-%d", i),
			UID:       types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)),
		},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}},
		},
		Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: ipOf(i)}}},
		},
	}
}

func ipOf(i int) string { return fmt.Sprintf("203.0.%d.%d", i/250, i%250+1) }

func nodeOf(i int) (corev1.Node, cloudstack.VirtualMachine) {
	name, id := fmt.Sprintf("worker-%d", i), fmt.Sprintf("10000000-0000-0000-0000-%012d", i)
	ip := fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": fmt.Sprintf("pool-%d", i%5)}},
	}
	n.Spec.ProviderID = "external-cloudstack:///" + id
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	return n, cloudstack.VirtualMachine{
		ID:    id,
		Name:  name,
		State: cloudstack.VMRunning,
		NICs:  []cloudstack.NIC{{NetworkID: "net", NetworkName: "k8s-net", IPv4: ip}},
	}
}

func ruleOf(svc *corev1.Service, i int) cloudstack.LoadBalancerRule {
	return cloudstack.LoadBalancerRule{
		ID:         fmt.Sprintf("rule-%d", i),
		Name:       lbplan.LBName(string(svc.UID)) + "-tcp-80",
		PublicIPID: fmt.Sprintf("ip-%d", i),
		PublicIP:   ipOf(i),
		PublicPort: 80, PrivatePort: 30080, Protocol: "tcp", Algorithm: "roundrobin", NetworkID: "net", State: "Active",
	}
}

// world returns a cluster with the given numbers of Services and nodes. Each Service has an address and a rule, and all
// nodes are members of each rule.
func world(t testing.TB, services, nodes int) *Page {
	t.Helper()
	f := OfInspection(&check.Facts{
		At:         at,
		OddMembers: rules.Members{},
		Networks:   []cloudstack.Network{{ID: "net", Name: "k8s-net", Type: "Isolated"}},
	}, &check.Report{})

	f.Logs = []check.Log{
		{Lines: []podlog.Line{{At: at, Values: map[string]string{"service": "team-0/web-0", "in": "3m"}}}},
	}
	var machines vms
	var members []cloudstack.LoadBalancerMember
	for i := range nodes {
		n, vm := nodeOf(i)
		f.Nodes, machines, members = append(f.Nodes, n), append(machines, vm), append(members,
			cloudstack.LoadBalancerMember{VMID: vm.ID})
	}

	f.VMs = machines.snapshot(t)
	for i := range services {
		svc := serviceOf(i)
		f.Services = append(f.Services, svc)
		f.AllRules = append(f.AllRules, ruleOf(&svc, i))
		f.Addresses = append(f.Addresses,
			cloudstack.PublicIP{
				ID:                  fmt.Sprintf("ip-%d", i),
				Address:             ipOf(i),
				State:               "Allocated",
				AssociatedNetworkID: "net",
			})
		f.OddMembers[fmt.Sprintf("rule-%d", i)] = members
	}

	return &f
}

func find(s *model.Snapshot, id string) *model.Object {
	for _, o := range s.Objects {
		if o.ID == id {
			return &o
		}
	}
	return nil
}

func TestWholeMap(t *testing.T) {
	t.Parallel()
	f := world(t, 1, 1)
	f.AllRules[0].CIDRs = []string{"192.0.2.0/24"}
	s := Of(f)
	var ids, links []string
	for _, o := range s.Objects {
		ids = append(ids, fmt.Sprintf("%s %s %s %s", o.ID, o.Group, o.Label, o.Health))
	}

	for _, l := range s.Links {
		links = append(links, strings.TrimSpace(l.From+" "+l.To+" "+l.Label))
	}

	const vm = "vm/10000000-0000-0000-0000-000000000000"
	assert.Equal(t, []string{
		"address/ip-0   ok", "network/net  Isolated ok", "node/worker-0 pool-0 10.1.0.1 ok",
		"rule/rule-0 team-0 team-0/web-0 from 192.0.2.0/24 ok",
		"service/team-0/web-0 team-0 80 ok", vm + " pool-0 Running ok",
	}, ids)

	assert.Equal(t, []string{
		"address/ip-0 rule/rule-0 80/tcp", "node/worker-0 " + vm, "rule/rule-0 node/worker-0",
		"service/team-0/web-0 address/ip-0", vm + " network/net 10.1.0.1",
	}, links)

	assert.Contains(t, find(&s, "service/team-0/web-0").Commands, "kubectl -n team-0 describe service web-0")
	assert.Equal(t, []model.Node{{
		Name:       "worker-0",
		Kubelet:    "unknown",
		ProviderID: f.Nodes[0].Spec.ProviderID,
		VMID:       vm[3:],
		VMState:    "Running",
		Ready:      true,
		Health:     model.HealthOK,
		Kubernetes: []string{"10.1.0.1"}, CloudStack: []string{"10.1.0.1"},
	}}, s.Nodes)

	assert.Equal(t, s, Of(f), "the same facts give the same snapshot")
}

// TestServicesOfTheClass: the map has the Services that the controller serves, which its arguments decide.
func TestServicesOfTheClass(t *testing.T) {
	t.Parallel()
	w := check.WorkloadOf(new(cluster.DeploymentOf(leftby.Controller("ccm", "x", nil,
		"--cloud-provider=external-cloudstack", "--load-balancer-class=example.com/x"))))
	w.Ours = true
	svc := serviceOf(1)
	svc.Spec.LoadBalancerClass = new("example.com/x")
	f := OfInspection(&check.Facts{
		Services:    []corev1.Service{serviceOf(0), svc},
		Controllers: []check.Workload{w},
	}, &check.Report{})
	require.Len(t, Of(&f).Objects, 1)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	const web, rule, address, node = "service/team-0/web-0", "rule/rule-0", "address/ip-0", "node/worker-0"
	planned := func(p loadbalancer.Preview, err string) func(*Page) {
		p.Service = "team-0/web-0"
		s := &plan.Service{Preview: p, Error: err}
		return func(f *Page) { f.Planned = map[string]*plan.Service{p.Service: s} }
	}

	found := func(code, title string, outcome check.Outcome, o check.Object) func(*Page) {
		return func(f *Page) {
			found := check.Finding{Outcome: outcome, Objects: []check.Object{o}}
			f.Findings = []check.Result{{Code: code, Title: title, Finding: found}}
			if code == "LB-003" { // LB-003 is about a rule without a Service
				f.Services = nil
			}
		}
	}

	on := func(kind, id string) []lbplan.Step {
		return []lbplan.Step{{Kind: kind, On: lbplan.On{IP: ipOf(0)}, ItemID: id, Port: 80}}
	}
	svc := serviceOf(0)
	orphan := ruleOf(&svc, 0).Name
	condition := func(status metav1.ConditionStatus) func(*Page) {
		return func(f *Page) {
			f.Services[0].Status.Conditions = []metav1.Condition{
				{Type: service.ConditionReady, Status: status, Reason: "PortTaken", Message: "port 80 is taken"},
			}
		}
	}

	for name, c := range map[string]struct {
		change func(*Page)
		id     string
		want   model.Health
		why    string
	}{
		"the condition is false": {condition(metav1.ConditionFalse), web, model.HealthError,
			"PortTaken: port 80 is taken"},
		"the condition is true": {condition(metav1.ConditionTrue), web, model.HealthOK, ""},
		"no address yet": {func(f *Page) { f.Services[0].Status = corev1.ServiceStatus{} }, web,
			model.HealthPending, "no address yet"},
		"refused": {planned(loadbalancer.Preview{
			Refusal: &lbplan.RefusalError{Reason: "PortTaken", Message: "taken"},
		}, ""), web, model.HealthError, "PortTaken: taken"},
		"drift": {planned(loadbalancer.Preview{Actions: on(lbplan.CreateRule, "")}, ""), web,
			model.HealthWarning, "1 action planned"},
		"drift of a rule": {planned(loadbalancer.Preview{Actions: on(lbplan.DeleteRule, "rule-0")}, ""), rule,
			model.HealthWarning, "planned: delete rule"},
		"no plan": {planned(loadbalancer.Preview{}, "CloudStack is down"), web, model.HealthWarning,
			"CloudStack is down"},
		"doctor about the Service": {
			found("LB-001", "Services are served", check.Failed,
				check.Object{Kind: "Service", Namespace: "team-0", Name: "web-0", Message: "members missing"}),
			web, model.HealthError, "LB-001: Services are served, members missing",
		},
		"doctor about the node": {
			found("NODE-006", "Addresses", check.Warning, check.Object{Kind: "Node", Name: "worker-0"}), node,
			model.HealthWarning, "NODE-006: Addresses",
		},
		"an orphaned address": {
			found("LB-003", "", check.Warning,
				check.Object{Kind: "PublicIpAddress", Name: ipOf(0), Message: "of no Service"}),
			address, model.HealthOrphan, "of no Service",
		},
		"doctor calls a rule an orphan": {
			found("LB-003", "", check.Warning,
				check.Object{Kind: "LoadBalancerRule", Name: orphan, Message: "of no Service"}),
			rule, model.HealthOrphan, "of no Service",
		},
		"a rule of others on a shared address": {func(f *Page) {
			f.AllRules = append(f.AllRules,
				cloudstack.LoadBalancerRule{ID: "theirs", Name: "shop", PublicIPID: "ip-0", PublicPort: 443})
		}, "rule/theirs", model.HealthForeign, "not made for"},
		"a node without a VM": {func(f *Page) { f.VMs = vms{}.snapshot(t) }, node, model.HealthError, "no VM"},
		"a node that is not ready": {func(f *Page) { f.Nodes[0].Status.Conditions = nil }, node, model.HealthError,
			"not ready"},
		"a stopped VM": {func(f *Page) { f.VMs.All()[0].State = cloudstack.VMStopped },
			"vm/10000000-0000-0000-0000-000000000000", model.HealthError, "Stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := world(t, 1, 1)
			c.change(f)
			s := Of(f)
			o := find(&s, c.id)
			require.NotNil(t, o)
			assert.Equal(t, c.want, o.Health, o.Why)
			assert.Contains(t, strings.Join(o.Why, "\n"), c.why)
			assert.Equal(t, c.id == web && c.want != model.HealthOK,
				strings.Contains(fmt.Sprint(o.Facts), "{Next try 2030-01-02T03:07:05Z}"))
		})
	}

	t.Run("addresses of others are not shown", func(t *testing.T) {
		t.Parallel()
		f := world(t, 1, 1)
		f.Addresses = append(f.Addresses, cloudstack.PublicIP{ID: "theirs", Address: "203.0.113.9"})
		f.AllRules = append(f.AllRules, cloudstack.LoadBalancerRule{ID: "r", Name: "shop", PublicIPID: "theirs"})
		s := Of(f)
		assert.Nil(t, find(&s, "address/theirs"))
		assert.Nil(t, find(&s, "rule/r"))
	})
}

// TestForwardOwners checks who owns a port forwarding. A port forwarding has no name, so its tags decide. If the
// controller may not set tags, the plan of the Service decides, whose record names the port forwarding.
func TestForwardOwners(t *testing.T) {
	t.Parallel()
	const service = "team-0/web-0"
	uid := string(serviceOf(0).UID)
	on := func(id string) []lbplan.Step {
		return []lbplan.Step{{Kind: lbplan.DeleteForward, ItemID: id, Protocol: "udp", Port: 53}}
	}
	for name, c := range map[string]struct {
		tags    map[string]string
		in      []lbplan.Item // the port forwardings that the plan has read
		actions []lbplan.Step
		owner   string
		health  model.Health
	}{
		"nothing says whose": {health: model.HealthForeign},
		"tagged": {
			tags:   map[string]string{lbplan.TagServiceUID: uid},
			owner:  service,
			health: model.HealthOK,
		},
		"tagged for a Service that is not": {
			tags:   map[string]string{lbplan.TagServiceUID: "gone"},
			health: model.HealthForeign,
		},
		"tagged for another Service, whatever a plan says": {
			tags:   map[string]string{lbplan.TagServiceUID: "gone"},
			in:     []lbplan.Item{{Rule: access.Rule{ID: "f"}, Mark: lbplan.Mark{Owner: lbplan.Owned}}},
			health: model.HealthForeign,
		},
		"recorded": {
			in:     []lbplan.Item{{Rule: access.Rule{ID: "f"}, Mark: lbplan.Mark{Owner: lbplan.Owned}}},
			owner:  service,
			health: model.HealthOK,
		},
		"others' beside a recorded one": {
			in: []lbplan.Item{
				{Rule: access.Rule{ID: "own"}, Mark: lbplan.Mark{Owner: lbplan.Owned}},
				{Rule: access.Rule{ID: "f"}},
			},
			health: model.HealthForeign,
		},
		"recorded, and to be deleted": {
			in: []lbplan.Item{{Rule: access.Rule{ID: "f"}, Mark: lbplan.Mark{Owner: lbplan.Owned}}}, actions: on("f"),
			owner: service, health: model.HealthPending,
		},
		"others', while another one is deleted": {actions: on("own"), health: model.HealthForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := world(t, 1, 1)
			f.AllRules, f.Services[0].Status = nil, corev1.ServiceStatus{}
			// This tag makes the page show the address, whoever owns the port forwarding.
			f.Addresses[0].Tags = map[string]string{lbplan.TagServiceUID: uid}
			f.Forwards = []cloudstack.PortForwarding{
				{
					ID:          "f",
					PublicIPID:  "ip-0",
					StartPort:   53,
					EndPort:     53,
					Protocol:    "udp",
					PrivatePort: 30053,
					Tags:        c.tags,
				},
			}

			p := &plan.Service{
				Preview: loadbalancer.Preview{
					Service: service,
					Actual:  &lbplan.Actual{Addresses: []lbplan.Address{{ID: "ip-0", Forwards: c.in}}},
				},
			}

			p.Actions = c.actions
			f.Planned = map[string]*plan.Service{"team-0/web-0": p}
			s := Of(f)
			o := find(&s, "forward/f")
			require.NotNil(t, o)
			assert.Equal(t, c.health, o.Health, o.Why)
			group := ""
			if c.owner != "" {
				group = "team-0"
				assert.Contains(t, o.Facts, model.Fact{Name: "Service", Value: c.owner})
			}

			assert.Equal(t, group, o.Group)
		})
	}
}

func TestTimelineAndSecrets(t *testing.T) {
	t.Parallel()
	f := world(t, 1, 1)
	event := func(kind, name, reason, message string, minute int) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "team-0", Name: name},
			Type:           "Warning",
			Reason:         reason,
			Message:        message,
			LastTimestamp:  metav1.NewTime(at.Add(time.Duration(minute) * time.Minute)),
		}
	}

	f.Events = []corev1.Event{
		event("Service", "web-0", "DriftRepaired", "a rule with key canary-1 was made again", 2),
		event("Service", "other", "Anything", "of a ClusterIP", 3),
		event("Pod", "web-0", "Started", "a Pod", 4), event("Service", "web-0", "EnsuringLoadBalancer", "", 1),
		event("Lease", "cloud-controller-manager", "LeaderElection", "ccm-a became leader", -9),
		event("Lease", "kube-scheduler", "LeaderElection", "s became leader", -8),
		event("Lease", "cloud-controller-manager", "LeaderElection", "ccm-b became leader", 0),
	}

	since := metav1.NewMicroTime(at)
	f.Leases = []coordinationv1.Lease{{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("ccm-b"), AcquireTime: &since, RenewTime: &since},
	}}

	f.Services[0].Annotations = map[string]string{
		"example.org/note":                 "canary-2",
		corev1.LastAppliedConfigAnnotation: "{}",
	}

	f.Clean = func(s string) string { return strings.NewReplacer("canary-1", "***", "canary-2", "***").Replace(s) }
	s := Of(f)
	require.Len(t, s.Timeline, 4)
	assert.Equal(t, "ccm-b became leader", s.Timeline[2].Message)
	assert.Equal(t,
		model.Entry{
			At:      at.Add(-9 * time.Minute),
			Kind:    "leader",
			Reason:  "LeaderElection",
			Message: "ccm-a became leader",
			Warning: true,
		}, s.Timeline[3])

	assert.Equal(t,
		model.Entry{
			At:      at.Add(2 * time.Minute),
			Kind:    "drift",
			Object:  "service/team-0/web-0",
			Reason:  "DriftRepaired",
			Message: "a rule with key *** was made again",
			Warning: true,
		}, s.Timeline[0])

	text, err := json.Marshal(s)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "canary")
	assert.Contains(t, find(&s, "service/team-0/web-0").Facts,
		model.Fact{Name: "Annotation example.org/note", Value: "***"})
	assert.NotContains(t, string(text), "last-applied")
}

// TestLargeCluster checks that a change of one object is a small patch, and that links stay readable.
func TestLargeCluster(t *testing.T) {
	t.Parallel()
	f := world(t, 1000, 1000)
	before := Of(f)
	assert.Len(t, before.Objects, 1000*5+1)
	assert.Less(t, len(before.Links), 10_000)
	assert.Contains(t, before.Links, model.Link{From: "rule/rule-7", To: model.GroupID(model.KindNode, "pool-0")})
	f.Services[7].Status.Conditions = []metav1.Condition{
		{Type: service.ConditionReady, Status: metav1.ConditionFalse, Reason: "PortTaken"},
	}
	f.At = at.Add(time.Second)
	patch, differs := model.Diff(before, Of(f))
	require.True(t, differs)
	text, err := json.Marshal(patch)
	require.NoError(t, err)
	assert.Len(t, patch.Objects, 1)
	assert.Less(t, len(text), 2000, string(text))
}
