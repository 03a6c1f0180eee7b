// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser tests the pages of csccm ui and of the simulator in a real browser. This file makes the snapshots.
package browser

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/ui/model"
)

// at is the time of all samples.
var at = time.Date(2026, 3, 14, 10, 30, 0, 0, time.UTC)

const namespaceSize, poolSize = 25, 100

// sample returns a snapshot with a number of Services and nodes. Each Service has an address and a rule, and every
// fifth a port forwarding; each node has a VM. Every 40th object has a problem.
func sample(services, nodes int) model.Snapshot {
	s := model.Snapshot{
		SchemaVersion: model.SchemaVersion,
		At:            at,
		Title:         fmt.Sprintf("Cluster sample: %d Services, %d nodes", services, nodes),
	}

	add := func(o model.Object) string {
		s.Objects = append(s.Objects, o)
		return o.ID
	}

	link := func(from, to, label string) { s.Links = append(s.Links, model.Link{From: from, To: to, Label: label}) }
	health := func(i int) (model.Health, []string) {
		switch i % 40 {
		case 7:
			return model.HealthError, []string{"LoadBalancerReady is False: LimitReached"}
		case 17:
			return model.HealthWarning, []string{"differs from the plan since 10:21"}
		case 27:
			return model.HealthPending, []string{"job runs for 12 s"}
		}
		return model.HealthOK, nil
	}

	network := add(model.Object{
		ID:     "network/net-0",
		Kind:   model.KindNetwork,
		Name:   "k8s-net",
		Label:  "10.1.0.0/16",
		Health: model.HealthOK,
	})

	for i := range nodes {
		pool := fmt.Sprintf("pool-%02d", i/poolSize)
		name, ip := fmt.Sprintf("node-%04d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)
		h, why := health(i + 1)
		node := add(model.Object{
			ID:       "node/" + name,
			Kind:     model.KindNode,
			Name:     name,
			Group:    pool,
			Health:   h,
			Why:      why,
			Label:    ip,
			Facts:    []model.Fact{{Name: "Provider ID", Value: "external-cloudstack://" + vmID(i)}},
			Commands: []string{"kubectl describe node " + name},
		})

		vm := add(model.Object{
			ID:     "vm/" + vmID(i),
			Kind:   model.KindVM,
			Name:   name,
			Health: model.HealthOK,
			Label:  "Running",
			Facts:  []model.Fact{{Name: "ID", Value: vmID(i)}},
		})

		link(node, vm, "")
		link(vm, network, ip)
		row := model.Node{
			Name:       name,
			Kubelet:    "external",
			Evidence:   "taint removed by the controller",
			ProviderID: "external-cloudstack://" + vmID(i),
			VMID:       vmID(i),
			VMState:    "Running",
			Ready:      h != model.HealthError,
			Kubernetes: []string{ip},
			CloudStack: []string{ip},
			Health:     h,
			Why:        why,
		}

		if h == model.HealthWarning {
			row.CloudStack = []string{"10.9.9.9"}
		}

		s.Nodes = append(s.Nodes, row)
	}

	for i := range services {
		namespace, name := fmt.Sprintf("team-%02d", i/namespaceSize), fmt.Sprintf("web-%04d", i)
		h, why := health(i)
		ip := fmt.Sprintf("203.0.%d.%d", i/250, i%250+1)
		service := add(model.Object{
			ID:     "service/" + namespace + "/" + name,
			Kind:   model.KindService,
			Name:   name,
			Group:  namespace,
			Health: h,
			Why:    why,
			Label:  ip + " 443/TCP",
			Facts:  []model.Fact{{Name: "Type", Value: "LoadBalancer"}, {Name: "Policy", Value: "Cluster"}},
			Commands: []string{"kubectl -n " + namespace + " describe service " + name,
				"csccm plan -n " + namespace + " " + name},
		})

		address := add(model.Object{
			ID:     fmt.Sprintf("address/a-%04d", i),
			Kind:   model.KindAddress,
			Name:   ip,
			Health: model.HealthOK,
			Facts:  []model.Fact{{Name: "ID", Value: fmt.Sprintf("a-%04d", i)}},
		})

		rule := add(model.Object{
			ID:     fmt.Sprintf("rule/r-%04d", i),
			Kind:   model.KindRule,
			Name:   name + "-443",
			Label:  "443 to 30443/TCP",
			Health: h,
		})

		link(service, address, "")
		link(address, rule, "443")
		for p := 0; p < nodes; p += poolSize {
			link(rule, model.GroupID(model.KindNode, fmt.Sprintf("pool-%02d", p/poolSize)), "30443")
		}

		if i%5 == 0 {
			forward := add(model.Object{
				ID:     fmt.Sprintf("forward/f-%04d", i),
				Kind:   model.KindForward,
				Name:   name + "-22",
				Label:  "22 to 22/TCP",
				Health: model.HealthOK,
			})
			link(address, forward, "22")
			if nodes > 0 {
				link(forward, fmt.Sprintf("node/node-%04d", i%nodes), "22")
			}
		}

		switch i % 40 {
		case 7:
			s.Plans = append(s.Plans,
				model.Plan{
					Service: service,
					Refusal: "the limit of public addresses is reached",
					Remedy:  "Ask the operator for more, or run csccm status.",
				})
		case 17:
			s.Plans = append(s.Plans,
				model.Plan{
					Service: service,
					Actions: []model.Action{
						{Sign: "+", Label: "create firewall rule 443/TCP"},
						{Sign: "-", Label: "delete load balancer rule " + name + "-80"},
						{Sign: "~", Label: "change algorithm to leastconn"},
					},
				})
		}

		if why != nil {
			s.Timeline = append(s.Timeline,
				model.Entry{
					At:      at.Add(-time.Duration(i) * time.Minute),
					Kind:    "event",
					Object:  service,
					Reason:  "SyncLoadBalancerFailed",
					Message: why[0],
					Warning: h == model.HealthError,
					Count:   3,
				})
		}
	}

	add(model.Object{
		ID:     "rule/orphan",
		Kind:   model.KindRule,
		Name:   "left-behind-80",
		Label:  "80 to 30080/TCP",
		Health: model.HealthOrphan,
		Why:    []string{"no Service has it"},
	})

	add(model.Object{
		ID:     "rule/foreign",
		Kind:   model.KindRule,
		Name:   "somebody-else",
		Label:  "25 to 25/TCP",
		Health: model.HealthForeign,
	})

	if services > 0 {
		link("address/a-0000", "rule/orphan", "80")
		link("address/a-0000", "rule/foreign", "25")
	}

	s.Timeline = append(s.Timeline,
		model.Entry{At: at, Kind: "leader", Reason: "LeaderElection", Message: "ccm-1 became leader"},
		model.Entry{
			At:      at.Add(-time.Hour),
			Kind:    "drift",
			Reason:  "Repaired",
			Message: "1 load balancer rule",
			Object:  "rule/orphan",
		})

	slices.SortStableFunc(s.Timeline, func(a, b model.Entry) int { return b.At.Compare(a.At) })
	slices.SortFunc(s.Objects, func(a, b model.Object) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Links,
		func(a, b model.Link) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	s.Checks = []model.Check{
		{Code: "CS-001", Title: "CloudStack answers", Category: "CloudStack", Status: "ok", Message: "4.20.1.0"},
		{
			Code:     "NODE-001",
			Title:    "Kubelets run with an external provider",
			Category: "Nodes",
			Status:   "error",
			Message:  "1 of 3 kubelets does not",
			Remedy:   "Run csccm taint.",
			Objects:  []model.About{{ID: "node/node-0000", Text: "Node node-0000"}, {Text: "Node gone"}},
			Link:     "https://example.com/checks#node-001",
		},
		{
			Code:     "NODE-006",
			Title:    "Kubelet and controller agree on node addresses",
			Category: "Nodes",
			Status:   "warning",
			Message:  "node-0016: addresses differ",
			Remedy:   "Start the kubelet with --node-ip.",
		},
		{
			Code:     "LB-003",
			Title:    "Probes",
			Category: "Load balancers",
			Status:   "skipped",
			Message:  "no Service asks for it",
		},
	}

	s.Calls = []model.Calls{
		{Command: "listVirtualMachines", Code: "200", PerMinute: 2},
		{Command: "createLoadBalancerRule", Code: "431", PerMinute: 0.5},
	}

	return s
}

func vmID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// hostile returns a snapshot in which every text is an attempt to inject HTML, a script or a link to another page.
func hostile() model.Snapshot {
	const evil = `"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script><style>*{display:none}</style>`
	const address = `javascript:window.hacked=1`
	s := sample(3, 2)
	s.Title = evil
	for i := range s.Objects {
		o := &s.Objects[i]
		o.Name, o.Label, o.Group, o.Why = evil, evil, evil, []string{evil}
		o.Facts, o.Commands = []model.Fact{{Name: evil, Value: evil}}, []string{evil}
	}

	service := model.Object{
		ID:     "service/" + evil + "/x",
		Kind:   model.KindService,
		Name:   evil,
		Group:  evil,
		Health: model.Health(evil),
		Label:  evil,
	}

	s.Objects = append(s.Objects, service, model.Object{ID: evil, Kind: model.Kind(evil), Name: evil})
	s.Links = append(s.Links,
		model.Link{From: service.ID, To: "address/a-0000", Label: evil, Health: model.Health(evil)},
		model.Link{From: evil, To: "group/node/" + evil})
	s.Checks = []model.Check{
		{
			Code:     evil,
			Title:    evil,
			Category: evil,
			Status:   evil,
			Message:  evil,
			Remedy:   evil,
			Objects:  []model.About{{ID: evil, Text: evil}, {ID: service.ID, Text: evil}},
			Link:     address,
		},
	}

	s.Plans = []model.Plan{
		{Service: service.ID, Actions: []model.Action{{Sign: evil, Label: evil}}},
		{Service: evil, Refusal: evil, Remedy: evil},
	}

	s.Nodes = []model.Node{
		{
			Name:       evil,
			Kubelet:    evil,
			Evidence:   evil,
			ProviderID: evil,
			VMID:       evil,
			VMState:    evil,
			Kubernetes: []string{evil},
			CloudStack: []string{address},
			Health:     model.Health(evil),
			Why:        []string{evil},
		},
	}

	s.Timeline = []model.Entry{
		{At: at, Kind: evil, Object: service.ID, Reason: evil, Message: evil, Warning: true, Count: 2},
	}
	s.Calls = []model.Calls{{Command: evil, Code: evil, PerMinute: 1}}
	s.Faults = []model.Fault{{Name: "../../x?" + evil, Title: evil}}
	s.Missing = []model.Missing{{Part: "objects", Reason: evil, Remedy: evil}}
	return s
}
