// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package family

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/testenv/leftby"
)

func TestRecognise(t *testing.T) {
	t.Parallel()
	held := func(name string) *lease.Name { return &lease.Name{Namespace: "kube-system", Name: name} }
	usual := held("cloud-controller-manager")
	for name, tt := range map[string]struct {
		d      *appsv1.Deployment
		family Family
		lease  *lease.Name
	}{
		"apache":                {leftby.Controller("cloud-controller-manager", "apache/cloudstack-kubernetes-provider:v1.2.0", nil, "--leader-elect=true", "--cloud-provider=external-cloudstack"), Apache, usual},
		"mirrored image":        {leftby.Controller("ccm", "registry.example.org/mirror:1", nil, "--cloud-provider", "external-cloudstack", "--leader-elect-resource-name=x"), Apache, held("x")},
		"leaseweb, one replica": {leftby.Controller("ccm", "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1", nil, "--cloud-provider=cloudstack", "--leader-elect=false"), Leaseweb, nil},
		"leaseweb, in capitals": {leftby.Controller("ccm", "x", nil, "--cloud-provider=cloudstack", "--leader-elect=FALSE"), Leaseweb, nil},
		"leaseweb, two":         {leftby.Controller("ccm", "x", nil, "--cloud-provider=cloudstack"), Leaseweb, usual},
		"another cloud":         {leftby.Controller("hcloud-cloud-controller-manager", "x", nil, "--cloud-provider=hcloud"), Other, usual},
		"ours":                  {leftby.Controller("ccm", "x", map[string]string{cluster.NameLabel: cluster.ChartName}, "--cloud-provider=cloudstack"), "", nil},
		"something else":        {leftby.Controller("web", "nginx", nil), "", nil},
		"something like it":     {leftby.Controller("cloud-controller-manager-exporter", "exporter", nil, "--port=1"), Other, usual},
	} {
		w := cluster.DeploymentOf(tt.d)
		p := of(&w)
		require.Equal(t, tt.family, p.Family, name)
		require.Equal(t, tt.lease, p.Lease, name)
	}
}

// The lease counts whatever kind of workload the chart makes: by it is decided which controller ends first.
func TestLeaseOfAChart(t *testing.T) {
	t.Parallel()
	mine := lease.Name{Namespace: "infra", Name: "mine"}
	for kind, want := range map[string]lease.Name{"Deployment": mine, "DaemonSet": mine, "StatefulSet": lease.Default} {
		manifest := "apiVersion: v1\nkind: ServiceAccount\n---\napiVersion: apps/v1\nkind: " + kind + `
metadata: {name: ccm, labels: {app.kubernetes.io/name: named-by-its-owner}}
spec: {template: {spec: {containers: [{name: ccm, args: [--leader-elect-resource-name=mine, --leader-elect-resource-namespace=infra]}]}}}
`
		require.Equal(t, want, LeaseOfChart(manifest), kind)
	}
}
