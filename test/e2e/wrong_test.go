// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/processnode"
)

// wrongWorld has a network without load balancing, and two VMs of one name.
func wrongWorld(t *testing.T) *simulator.World {
	t.Helper()
	world, err := simulator.LoadWorld(strings.NewReader(`
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
`))
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// TestWrongNodesAndServices shows that each fault gets an Event that names it, and
// that none keeps the others from their work.
func TestWrongNodesAndServices(t *testing.T) {
	t.Parallel()
	env := newClusterEnv(t, wrongWorld(t))
	env.join(t,
		processnode.Options{Name: "ghost", Address: "10.1.1.99"},
		processnode.Options{Name: "twin", Address: "10.1.1.22"},
		processnode.Options{Name: "good", Address: "10.1.1.21"})
	env.balanced(t, "web", 80)
	env.secret(t, string(env.config(t).Render()))
	env.install(t, embedded(t), nil)

	env.initialized(t, "good")
	for _, c := range []struct{ node, reason, want string }{
		{"ghost", "NodeWithoutVM", "ghost"},
		{"twin", "AmbiguousVM", "twin"},
	} {
		text := env.event(t, "Node", c.node, c.reason)
		t.Logf("node %s: %s", c.node, text)
		if !strings.Contains(text, c.want) {
			t.Errorf("the Event on node %s does not name it: %s", c.node, text)
		}
		n, err := env.node(t.Context(), c.node)
		if err != nil || n.Spec.ProviderID != "" || !hasTaint(n, taint) {
			t.Errorf("node %s: %v, provider ID %q, taints %v", c.node, err, n.Spec.ProviderID, n.Spec.Taints)
		}
	}
	text := env.event(t, "Service", "web", "UnsupportedNetwork")
	t.Logf("service web: %s", text)
	if !strings.Contains(text, "flat-net") {
		t.Errorf("the Event does not name the network: %s", text)
	}
}

// TestWrongConfig puts right, one by one, what can be wrong in a cloud-config; each
// mistake is one line in the log that names it, and the controller recovers when the
// Secret is corrected.
func TestWrongConfig(t *testing.T) { //nolint:tparallel // the parts share one cluster, in this order
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1)
	good := string(env.config(t).Render())
	wrongKey := *env.config(t)
	wrongKey.SecretKey = strings.Repeat("x", len(wrongKey.SecretKey))
	noProject := *env.config(t)
	noProject.ProjectID = "no-such-project"

	env.secret(t, good+"\nflavour = vanilla\n")
	if _, err := env.helm.Apply(t.Context(), applyRequest(t)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, config, want string }{
		{"unknown key", "", "flavour"},
		{"bad URL", strings.Replace(good, "http://", "gopher://", 1), "api-url"},
		{"wrong key", string(wrongKey.Render()), "401"},
		{"unknown project", string(noProject.Render()), "no-such-project"},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			if c.config != "" {
				env.secret(t, c.config)
				env.restart(t)
			}
			env.eventually(t, "a line in the log with "+c.want, func(ctx context.Context) error {
				for line := range strings.SplitSeq(env.logs(ctx), "\n") {
					if strings.Contains(line, c.want) {
						t.Log(line)
						return nil
					}
				}
				return errors.New("there is none")
			})
			if n, err := env.node(t.Context(), cp1.Name); err != nil || !hasTaint(n, taint) {
				t.Errorf("the node is initialised with a wrong config: %v", err)
			}
		}) {
			t.FailNow()
		}
	}
	env.secret(t, good)
	env.restart(t)
	env.initialized(t, cp1.Name)
}

// restart deletes the controller's Pods, so that the next ones read the Secret anew.
func (env *clusterEnv) restart(t *testing.T) {
	t.Helper()
	pods, err := env.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if err := env.Client.CoreV1().Pods(metav1.NamespaceSystem).Delete(t.Context(), pods[i].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
