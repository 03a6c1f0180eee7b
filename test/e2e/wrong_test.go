// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/processnode"
)

// wrongWorld has a network without load balancing, and two VMs of one name.
const wrongWorld = `
zones:
  - name: zone-1
    publicRanges: [203.0.113.10-203.0.113.99]
accounts:
  - name: k8s
    role: User
    users: [{name: k8s-owner}]
networks:
  - {name: flat-net, account: k8s, type: Shared, offering: DefaultSharedNetworkOffering, cidr: 10.1.1.0/24}
  - {name: other-net, account: k8s, cidr: 10.2.2.0/24}
virtualMachines:
  - {name: good, account: k8s, nics: [{network: flat-net, ip: 10.1.1.21}]}
  - {name: twin, id: 11111111-0000-4000-8000-000000000001, account: k8s, nics: [{network: flat-net, ip: 10.1.1.22}]}
  - {name: twin, id: 11111111-0000-4000-8000-000000000002, account: k8s, nics: [{network: other-net, ip: 10.2.2.22}]}
`

// TestWrong installs with a cloud-config in which one thing after the other is wrong; each is a line in the log that names it, and
// the controller recovers when the Secret is corrected. Then each fault of nodes and Services gets an Event that names it, and
// none keeps the others from their work.
func TestWrong(t *testing.T) { //nolint:tparallel // the parts share one cluster, in this order
	t.Parallel()
	world, err := simulator.LoadWorld(strings.NewReader(wrongWorld))
	if err != nil {
		t.Fatal(err)
	}
	e := newClusterEnv(t, world)
	e.join(t,
		processnode.Options{Name: "ghost", Address: "10.1.1.99"},
		processnode.Options{Name: "twin", Address: "10.1.1.22"},
		processnode.Options{Name: "good", Address: "10.1.1.21"})
	e.service(t, "web", 80)
	good := string(e.config(t, owner).Render())
	wrongKey, noProject := e.config(t, owner), e.config(t, owner)
	wrongKey.SecretKey = strings.Repeat("x", len(wrongKey.SecretKey))
	noProject.ProjectID = "no-such-project"

	e.secret(t, good+"\nflavour = vanilla\n")
	e.install(t, map[string]any{"controlPlaneOnly": false})
	for _, c := range []struct{ name, config, want string }{
		{"unknown key", "", "flavour"},
		{"wrong key", string(wrongKey.Render()), "401"},
		{"unknown project", string(noProject.Render()), "no-such-project"},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			if c.config != "" {
				e.secret(t, c.config)
				e.restart(t)
			}
			e.eventually(t, "a line in the log with "+c.want, func(ctx context.Context) error {
				if !strings.Contains(strings.Join(slices.Collect(maps.Values(e.logs(ctx))), ""), c.want) {
					return errors.New("there is none")
				}
				return nil
			})
			if !hasTaint(e.node(t, "good"), taint) {
				t.Error("the node is initialised with a wrong config")
			}
		}) {
			t.FailNow()
		}
	}
	e.secret(t, good)
	e.restart(t)
	e.initialised(t, 1)
	for _, c := range []struct{ kind, name, reason, want string }{
		{"Node", "ghost", "NodeWithoutVM", "ghost"},
		{"Node", "twin", "AmbiguousVM", "twin"},
		{"Service", "web", "UnsupportedNetwork", "flat-net"},
	} {
		if text := e.event(t, c.kind, c.name, c.reason); !strings.Contains(text, c.want) {
			t.Errorf("the Event on %s %s does not name %s: %s", c.kind, c.name, c.want, text)
		}
		if c.kind != "Node" {
			continue
		}
		if n := e.node(t, c.name); n.Spec.ProviderID != "" || !hasTaint(n, taint) {
			t.Errorf("node %s: provider ID %q, taints %v", c.name, n.Spec.ProviderID, n.Spec.Taints)
		}
	}
}

// restart deletes the controller's Pods, so that the next ones read the Secret again.
func (e *clusterEnv) restart(t *testing.T) {
	t.Helper()
	pods, err := e.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if err := e.Client.CoreV1().Pods(metav1.NamespaceSystem).Delete(t.Context(), pods[i].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
