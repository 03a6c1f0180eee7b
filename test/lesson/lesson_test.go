// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/simpage"
	"github.com/csccm/csccm/test/internal/console"
)

// TestScript: each function that a chapter names exists in the file that it names. Each call that only reads has a
// purpose in the script, because such calls may come at any time, for example in a drift round.
func TestScript(t *testing.T) {
	t.Parallel()
	var s console.Script
	require.NoError(t, yaml.UnmarshalStrict(script, &s))
	for _, c := range s.Chapters {
		for _, code := range c.Code {
			assert.Contains(t, functions(t, filepath.Join("..", "..", code.File)), code.Func)
		}
	}
	for command := range s.Purposes {
		assert.Contains(t, provider.RequiredCommands, command)
	}
	for _, command := range provider.RequiredCommands {
		assert.False(t, strings.HasPrefix(command, "list") && s.Purposes[command] == "", "%s has no purpose", command)
	}
}

// functions returns the functions of a file, methods as Type.Method.
func functions(t *testing.T, path string) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
			names = append(names, f.Name.Name)
		} else if is {
			recv, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[") // without type parameters
			names = append(names, strings.TrimPrefix(recv, "*")+"."+f.Name.Name)
		}
	}
	return names
}

// TestAddCluster: a Service has a link to its address, and a Node has a link to its VM. The health shows what is
// missing.
func TestAddCluster(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	defer sim.Close()
	s, err := simpage.New(sim).Snapshot(t.Context())
	require.NoError(t, err)
	vm, address, links := sim.Objects().VMs[0], sim.Objects().Addresses[0], len(s.Links)
	service := func(name string, kind corev1.ServiceType, at ...corev1.LoadBalancerIngress) corev1.Service {
		return corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: kind},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: at}},
		}
	}

	node := func(name string, spec corev1.NodeSpec, conditions ...corev1.NodeCondition) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       spec,
			Status:     corev1.NodeStatus{Conditions: conditions},
		}
	}

	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	addCluster(&s, "a", []corev1.Service{
		service("web", corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: address.Address}),
		service("new", corev1.ServiceTypeLoadBalancer), service("inner", corev1.ServiceTypeClusterIP),
	}, []corev1.Node{
		node("n1", corev1.NodeSpec{ProviderID: "external-cloudstack://" + vm.ID}, ready),
		node("n2", corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}}, ready),
		node("n3", corev1.NodeSpec{}),
	})

	health := map[string]model.Health{}
	for _, o := range s.Objects {
		if o.Group == "a" {
			health[o.ID] = o.Health
		}
	}

	assert.Equal(t, map[string]model.Health{
		"service/a/web": model.HealthOK, "service/a/new": model.HealthPending,
		"node/a/n1": model.HealthOK, "node/a/n2": model.HealthPending, "node/a/n3": model.HealthError,
	}, health)

	assert.Equal(t, []model.Link{
		{From: "service/a/web", To: "address/" + address.ID}, {From: "node/a/n1", To: "vm/" + vm.ID},
	}, s.Links[links:])
}
