// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso"
	isotest "github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// cksProjectWorld is the example world with the cluster's VMs in a project, and the account that CKS makes for such a cluster: its
// role allows neither tags nor zones.
func cksProjectWorld() *simulator.World {
	w := simulator.ExampleWorld()
	w.Accounts = append(w.Accounts, simulator.Account{
		Name: "kubeadmin-p", Role: "Project Kubernetes Service Role", Users: []simulator.User{{Name: "kubeadmin", APIKey: "cks-key", SecretKey: "cks-secret"}},
	})
	w.Projects = append(w.Projects, simulator.Project{ID: "b0a4e8a3-6a8d-4f0e-9a0a-000000000001", Name: "cks", Owner: "k8s", Members: []string{"kubeadmin-p"}})
	for i := range w.Networks {
		if n := &w.Networks[i]; n.Account == "k8s" {
			n.Account, n.Project = "", "cks"
		}
	}
	for i := range w.VirtualMachines {
		if v := &w.VirtualMachines[i]; v.Account == "k8s" {
			v.Account, v.Project = "", "cks"
		}
	}
	return w
}

// TestClusterFromAnISOOfCKS applies provider.yaml of an ISO as CKS does: by kubectl, with the Secret of the cluster's service
// account, on nodes whose kubelets run without the flag. Then csccm takes over what CKS applied.
func TestClusterFromAnISOOfCKS(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "csccm.iso")
	request := applyRequest(t, nil)
	if _, err := iso.Make(t.Context(), &iso.Options{
		From: isotest.Upstream("v1.37.1", "amd64").ISO(t), To: to, Chart: request.Chart, Values: request.Values, Image: isotest.Image(t, "ghcr.io/csccm/cloudstack-ccm:"+request.Chart.AppVersion()),
	}); err != nil {
		t.Fatal(err)
	}
	disk, err := iso.Open(to)
	require.NoError(t, err)
	provider, err := fs.ReadFile(disk, "provider.yaml")
	require.NoError(t, err)
	require.NoError(t, disk.Close())

	world := cksProjectWorld()
	e := newClusterEnv(t, world)
	e.join(t, joined(cp1), joined(worker1))
	config := e.config(t, "kubeadmin")
	config.ProjectID = world.Projects[len(world.Projects)-1].ID
	e.secret(t, string(config.Render()))
	out, err := e.kubectl(t.Context(), string(provider), "apply", "--validate=strict", "-f", "-")
	if err != nil || strings.Contains(out, "Warning") {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	e.initialised(t, 2)
	e.runs(t, "Deployment")

	e.service(t, "web", 80)
	ip := e.address(t, "web")
	client := e.api(t, "kubeadmin")
	members := func(want ...string) {
		t.Helper()
		e.eventually(t, fmt.Sprintf("the members of the Service's rule to be %v", want), func(ctx context.Context) error {
			rules, err := client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: config.ProjectID})
			if err != nil {
				return err
			}
			rules = slices.DeleteFunc(rules, func(r cloudstack.LoadBalancerRule) bool { return r.PublicIP != ip })
			if len(rules) != 1 {
				return fmt.Errorf("the address has %d rules", len(rules))
			}
			list, err := client.ListLoadBalancerMembers(ctx, rules[0].ID)
			if err != nil {
				return err
			}
			var names []string
			for _, m := range list {
				names = append(names, m.Name)
			}
			if slices.Sort(names); !slices.Equal(names, want) {
				return fmt.Errorf("they are %v", names)
			}
			return nil
		})
	}
	members(worker1.Name)
	e.join(t, joined(worker2)) // as scaling by CKS adds it
	e.initialised(t, 3)
	members(worker1.Name, worker2.Name)

	before := e.controllerPods(t)
	e.csccm(t, "", append([]string{"install", "--yes", "--skip-taint", "--set", "replicaCount=1", "--set", "adoptNodes=true"}, podNetwork...)...).want(t, 0)
	if after := e.controllerPods(t); !slices.Equal(before, after) {
		t.Errorf("Pods %v became %v", before, after)
	}
	e.csccm(t, "", "upgrade", "--yes", "--set", "logVerbosity=3").want(t, 0)
	if now := e.address(t, "web"); now != ip {
		t.Errorf("the Service's address was %s, is %s", ip, now)
	}
	members(worker1.Name, worker2.Name)
}
