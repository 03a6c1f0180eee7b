// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// A case of scale or upgrade: a change of what is well, and the findings.
type row struct {
	change func(f *facts)
	want   []string
}

// inCommon are the cases of scaling up and of upgrading alike: both need every node and the certificates.
func inCommon() map[string]row {
	return map[string]row{
		"well":            {func(*facts) {}, nil},
		"external":        {func(f *facts) { f.Cluster.Type = cloudstack.ExternalManaged }, []string{"error cluster-type"}},
		"in alert":        {func(f *facts) { f.Cluster.State = "Alert" }, []string{"error cluster-state"}},
		"being changed":   {func(f *facts) { f.Cluster.State = "Scaling" }, []string{"error cluster-state"}},
		"stopped":         {func(f *facts) { f.Cluster.State = "Stopped" }, []string{"error cluster-state"}},
		"VM is stopped":   {func(f *facts) { f.Cluster.Nodes[1].State = "Stopped" }, []string{"error vm-state"}},
		"VM does not say": {func(f *facts) { f.Cluster.Nodes[1].State = "" }, nil},
		"etcd VM is stopped": {func(f *facts) {
			f.Cluster.Nodes = append(f.Cluster.Nodes, cloudstack.ClusterVM{ID: "e", Name: "e", State: "Stopped", Etcd: true})
		}, []string{"error vm-state"}},
		"etcd VM is no Node": {func(f *facts) {
			f.Cluster.Nodes = append(f.Cluster.Nodes, cloudstack.ClusterVM{ID: "e", Name: "e", State: "Running", Etcd: true})
		}, nil},
		"VM is gone":              {func(f *facts) { f.Cluster.Nodes = f.Cluster.Nodes[:2] }, []string{"warning cluster-nodes"}},
		"Node is not Ready":       {func(f *facts) { f.Nodes[2] = Node{Name: "c1-node-2", VMID: "vm2", Why: "kubelet stopped posting"} }, []string{"error node-not-ready"}},
		"Node of somebody else":   {func(f *facts) { f.Nodes = append(f.Nodes, Node{Name: "other"}) }, nil},
		"VM never joined":         {func(f *facts) { f.Nodes = f.Nodes[:2] }, []string{"error node-missing"}},
		"certificate for 30 days": {func(f *facts) { f.Certificates[0].NotAfter = now.Add(ExpiryWarning + time.Second) }, nil},
		"certificate for less":    {func(f *facts) { f.Certificates[0].NotAfter = now.Add(ExpiryWarning) }, []string{"warning certificate-expires"}},
		"its last second":         {func(f *facts) { f.Certificates[0].NotAfter = now }, []string{"warning certificate-expires"}},
		"certificate expired":     {func(f *facts) { f.Certificates[0].NotAfter = now.Add(-time.Second) }, []string{"error certificate-expired"}},
		"kubeconfig expired":      {func(f *facts) { f.Certificates[1].NotAfter = now.Add(-time.Second) }, []string{"error certificate-expired"}},
		"not yet valid":           {func(f *facts) { f.Certificates[0].NotBefore = now.Add(time.Second) }, []string{"error certificate-not-yet"}},
		"for another address":     {func(f *facts) { f.Certificates[0].Names = []string{"10.96.0.1", "10.1.1.88"} }, []string{"warning certificate-host"}},
		"names differ in case": {func(f *facts) {
			f.Certificates[0].Host, f.Certificates[0].Names = "API.example.org", []string{"api.Example.org"}
		}, nil},
		"IPv6 forms": {func(f *facts) {
			f.Certificates[0].Host, f.Certificates[0].Names = "2001:db8::1", []string{"2001:0db8:0::1"}
		}, nil},
	}
}

func run(t *testing.T, rows map[string]row, decide func(f *facts) []Finding) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			tc.change(f)
			require.Equal(t, append([]string{}, tc.want...), codes(t, decide(f)))
		})
	}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	to := func(f *facts, id string) []Finding { return Upgrade(f, id) }
	run(t, inCommon(), func(f *facts) []Finding { return to(f, "v132") })
	run(t, map[string]row{
		"disabled":              {func(f *facts) { f.Versions[2].State = cloudstack.VersionDisabled }, []string{"error version-disabled"}},
		"in another zone":       {func(f *facts) { f.Versions[2].ZoneID = "y" }, []string{"error version-zone"}},
		"ISO not Ready":         {func(f *facts) { f.Versions[2].ISOState = "Failed" }, []string{"error iso-not-ready"}},
		"another machine":       {func(f *facts) { f.Versions[2].Arch = "aarch64" }, []string{"error version-arch"}},
		"machine is not known":  {func(f *facts) { f.Versions[2].Arch = "" }, nil},
		"own version is gone":   {func(f *facts) { f.Cluster.VersionID = "x" }, []string{"error version-current"}},
		"HA":                    {func(f *facts) { f.Versions[2].SupportsHA, f.Cluster.ControlNodes, f.Cluster.Size = false, 2, 1 }, []string{"error version-ha"}},
		"no offering":           {func(f *facts) { f.Cluster.OfferingID = "" }, []string{"error offering-missing"}},
		"offering is not shown": {func(f *facts) { f.Cluster.OfferingID = "x" }, nil},
		"offering too small":    {func(f *facts) { f.Versions[2].MinCPUs = 3 }, []string{"error offering-upgrade"}},
		"memory too small":      {func(f *facts) { f.Versions[2].MinMemoryMiB = 2049 }, []string{"error offering-upgrade"}},
		"CKS's own minimum is past": {func(f *facts) {
			f.Cluster.OfferingID, f.Versions[2].MinCPUs, f.Versions[2].MinMemoryMiB = "small", 1, 512
		}, nil},
		"workers are too small":  {func(f *facts) { f.Cluster.WorkerOfferingID = "small" }, []string{"warning offering-small"}},
		"control nodes likewise": {func(f *facts) { f.Cluster.ControlOfferingID = "small" }, []string{"warning offering-small"}},
	}, func(f *facts) []Finding { return to(f, "v132") })
	run(t, map[string]row{"newer patch": {func(*facts) {}, nil}}, func(f *facts) []Finding { return to(f, "v131p") })
	run(t, map[string]row{"two minors": {func(*facts) {}, []string{"error version-step"}}}, func(f *facts) []Finding { return to(f, "v133") })
	run(t, map[string]row{"the same": {func(*facts) {}, []string{"error version-step"}}}, func(f *facts) []Finding { return to(f, "v131") })
	run(t, map[string]row{"unknown": {func(*facts) {}, []string{"error version-unknown"}}}, func(f *facts) []Finding { return to(f, "x") })
}

// TestStep has the cases of the server's KubernetesVersionManagerImpl.canUpgradeKubernetesVersion.
func TestStep(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ from, to, why string }{
		{"1.31.1", "1.31.2", ""},
		{"1.31.1", "1.31.10", ""},
		{"1.31.9", "1.32.0", ""},
		{"1.31.1", "1.31.1", "has this version already"},
		{"1.31.2", "1.31.1", "downgrade"},
		{"1.31.10", "1.31.9", "downgrade"},
		{"1.32.0", "1.31.9", "downgrade"},
		{"1.31.1", "1.33.0", "next minor"},
		{"1.31.1", "2.0.0", "next minor"},
		{"1.31.1", "2.32.0", "next minor"},
		{"1.31", "1.32.0", "MAJOR.MINOR.PATCH"},
		{"1.31.1", "1.32.0-rc.1", "MAJOR.MINOR.PATCH"},
		{"", "1.32.0", "MAJOR.MINOR.PATCH"},
	} {
		why := Step(tc.from, tc.to)
		if tc.why == "" {
			require.Empty(t, why, "%s to %s", tc.from, tc.to)
		} else {
			require.Contains(t, why, tc.why, "%s to %s", tc.from, tc.to)
		}
	}
}

// TestStepRemedy: the remedy names what the server would accept.
func TestStepRemedy(t *testing.T) {
	t.Parallel()
	remedy := func(change func(f *facts)) string {
		f := good()
		change(f)
		for _, x := range Upgrade(f, "v133") {
			if x.Code == "version-step" {
				return x.Remedy
			}
		}
		return ""
	}
	require.Equal(t, "upgrade to 1.32.4 or 1.31.7", remedy(func(*facts) {}))
	require.Equal(t, "upgrade to 1.31.7", remedy(func(f *facts) { f.Versions[2].ISOState = "Creating" }))
	require.Contains(t, remedy(func(f *facts) { f.Versions = append(f.Versions[:1:1], f.Versions[3]) }), "ask an administrator to add one")
}

func TestScaleUp(t *testing.T) {
	t.Parallel()
	rows := inCommon()
	rows["just created"] = row{func(f *facts) { f.Cluster.State = "Created" }, nil}
	for name, r := range map[string]row{
		"limit of VMs":          {func(f *facts) { f.Quota.VMs.Max = 4 }, []string{"error limit"}},
		"VMs just fit":          {func(f *facts) { f.Quota.VMs.Max = 5 }, nil},
		"limit of CPUs":         {func(f *facts) { f.Quota.CPUs.Max = 9 }, []string{"error limit"}},
		"workers' own offering": {func(f *facts) { f.Cluster.WorkerOfferingID, f.Quota.CPUs.Max = "big", 6+7 }, []string{"warning mixed-offerings", "error limit"}},
		"no address is needed":  {func(f *facts) { f.Quota.PublicIPs.Max, f.FreeAddresses = 0, 0 }, nil},
		"template is not ready": {func(f *facts) { f.Templates[0].Ready = false }, []string{"error template"}},
		"template is not shown": {func(f *facts) { f.Templates = nil }, nil},
		"without an offering":   {func(f *facts) { f.Cluster.OfferingID, f.Cluster.WorkerOfferingID = "", "node" }, []string{"warning offering-missing"}},
		"autoscaled":            {func(f *facts) { f.Cluster.Autoscaling = true }, []string{"warning autoscaling"}},
		"firewall rule, no ports": {func(f *facts) {
			f.Firewall = append(f.Firewall, cloudstack.FirewallRule{ID: "x", PublicIPID: "ip", Protocol: "icmp"})
		}, []string{"error firewall-without-ports"}},
		"on another address": {func(f *facts) {
			f.Firewall = append(f.Firewall, cloudstack.FirewallRule{ID: "x", PublicIPID: "other", Protocol: "icmp"})
		}, nil},
		"firewall rule, all ports": {func(f *facts) {
			f.Firewall = append(f.Firewall, cloudstack.FirewallRule{ID: "x", PublicIPID: "ip", Protocol: "udp", StartPort: 1, EndPort: 65535})
		}, nil},
		"firewall rule for SSH":     {func(f *facts) { f.Firewall = f.Firewall[1:] }, []string{"warning firewall-ssh-missing"}},
		"tier, no rules":            {func(f *facts) { f.Cluster.IPAddressID, f.Firewall = "", nil }, nil},
		"etcd does not matter here": {func(f *facts) { f.Cluster.EtcdNodes = 3 }, nil},
	} {
		rows[name] = r
	}
	run(t, rows, func(f *facts) []Finding { return Scale(f, scale{ID: "k", Size: 4}) })
}

func TestScaleDown(t *testing.T) {
	t.Parallel()
	run(t, map[string]row{
		"well":              {func(*facts) {}, nil},
		"limits are past":   {func(f *facts) { f.Quota.VMs.Max = 1 }, nil},
		"node is not Ready": {func(f *facts) { f.Nodes[2].Ready = false }, []string{"warning node-not-ready"}},
		"VM is stopped":     {func(f *facts) { f.Cluster.Nodes[2].State = "Stopped" }, []string{"warning vm-state"}},
		"separate etcd":     {func(f *facts) { f.Cluster.EtcdNodes = 1 }, []string{"warning etcd-scale-down"}},
		"firewall rule":     {func(f *facts) { f.Firewall[0].StartPort = 0 }, []string{"error firewall-without-ports", "warning firewall-ssh-missing"}},
	}, func(f *facts) []Finding { return Scale(f, scale{ID: "k", Size: 1}) })
}

func TestScaleRequests(t *testing.T) {
	t.Parallel()
	on, off := true, false
	for name, tc := range map[string]struct {
		request scale
		change  func(f *facts)
		want    []string
	}{
		"nothing":                     {scale{}, nil, []string{"error scale-nothing"}},
		"two kinds":                   {scale{Size: 3, OfferingID: "big"}, nil, []string{"error scale-one-kind"}},
		"two others":                  {scale{Autoscaling: &off, WorkerOfferingID: "big"}, nil, []string{"error scale-one-kind"}},
		"no size":                     {scale{Size: -1}, nil, []string{"error cluster-size"}},
		"the same size":               {scale{Size: 2}, nil, []string{"warning scale-nothing"}},
		"autoscaling":                 {scale{Autoscaling: &on, MinSize: 1, MaxSize: 4}, nil, nil},
		"autoscaling, no range":       {scale{Autoscaling: &on, MinSize: 3, MaxSize: 3}, nil, []string{"error autoscaling-range"}},
		"autoscaling from 0":          {scale{Autoscaling: &on, MinSize: 0, MaxSize: 3}, nil, []string{"error autoscaling-range"}},
		"autoscaling, old version":    {scale{Autoscaling: &on, MinSize: 1, MaxSize: 2}, func(f *facts) { f.Versions[0].SupportsAutoscaling = false }, []string{"error version-autoscaling"}},
		"autoscaling, limit":          {scale{Autoscaling: &on, MinSize: 1, MaxSize: 4}, func(f *facts) { f.Quota.VMs.Max = 4 }, []string{"warning limit"}},
		"autoscaling off":             {scale{Autoscaling: &off}, nil, nil},
		"larger":                      {scale{OfferingID: "big"}, nil, nil},
		"larger, limit":               {scale{OfferingID: "big"}, func(f *facts) { f.Quota.CPUs.Max = 6 + 5 }, []string{"error limit"}},
		"larger, just fits":           {scale{OfferingID: "big"}, func(f *facts) { f.Quota.CPUs.Max = 6 + 6 }, nil},
		"workers larger":              {scale{WorkerOfferingID: "big"}, func(f *facts) { f.Quota.CPUs.Max = 6 + 4 }, nil},
		"too small":                   {scale{OfferingID: "small"}, func(f *facts) { f.Cluster.State = "Stopped" }, []string{"error offering-small", "error offering-small"}},
		"smaller, running":            {scale{OfferingID: "node"}, func(f *facts) { f.Cluster.OfferingID = "big" }, []string{"error offering-shrinks", "error offering-shrinks"}},
		"smaller, stopped":            {scale{OfferingID: "node"}, func(f *facts) { f.Cluster.OfferingID, f.Cluster.State = "big", "Stopped" }, nil},
		"custom":                      {scale{WorkerOfferingID: "any"}, nil, []string{"error offering-custom"}},
		"unknown":                     {scale{ControlOfferingID: "x"}, nil, []string{"error offering-unknown"}},
		"own version is gone":         {scale{OfferingID: "big"}, func(f *facts) { f.Versions = nil }, nil},
		"offerings cannot be read":    {scale{OfferingID: "big"}, func(f *facts) { f.Unread[SubjectOfferings] = "no"; f.Offerings = nil }, nil},
		"size, nothing can be read":   {scale{Size: 3}, func(f *facts) { *f = Facts{Now: now, Cluster: f.Cluster, Unread: everything} }, nil},
		"offering, nothing is read":   {scale{OfferingID: "big"}, func(f *facts) { *f = Facts{Now: now, Cluster: f.Cluster, Unread: everything} }, nil},
		"autoscaling, nothing either": {scale{Autoscaling: &on, MinSize: 1, MaxSize: 9}, func(f *facts) { *f = Facts{Now: now, Cluster: f.Cluster, Unread: everything} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			if tc.change != nil {
				tc.change(f)
			}
			require.Equal(t, append([]string{}, tc.want...), codes(t, Scale(f, tc.request)))
		})
	}
}

// everything is what no role allows.
var everything = func() map[Subject]string {
	out := map[Subject]string{}
	for _, s := range []Subject{
		SubjectClusters, SubjectVersions, SubjectOfferings, SubjectTemplates, SubjectNetworks, SubjectKeyPairs, SubjectQuota, SubjectFree, SubjectAddresses, SubjectFirewall,
		SubjectForwards, SubjectBalancers, SubjectNetworkVMs, SubjectNodes, SubjectServices, SubjectCertificate, SubjectKubeconfig,
	} {
		out[s] = "the role of the keys does not allow it"
	}
	return out
}()

// TestUnread: with nothing but the cluster itself, each operation names what it did not check, once.
func TestUnread(t *testing.T) {
	t.Parallel()
	f := &Facts{Now: now, Cluster: good().Cluster, Unread: everything}
	for name, tc := range map[string]struct {
		got  []Finding
		want []string
	}{
		"upgrade": {Upgrade(f, "v132"), []string{"the Kubernetes versions", "the Nodes", "the certificate in the administrator's kubeconfig", "the certificate of the API server"}},
		"scale up": {Scale(f, scale{Size: 3}), []string{
			"the Kubernetes versions", "the Nodes", "the certificate in the administrator's kubeconfig", "the certificate of the API server", "the firewall rules of the network",
			"the resource limits", "the service offerings", "the setting cloud.kubernetes.cluster.max.size", "the template of the nodes",
		}},
		"delete": {Delete(f, DeleteRequest{}), []string{"the addresses of the network", "the firewall rules of the network", "the load balancer rules of the network", "the networks"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, codes(t, tc.got))
			require.Equal(t, tc.want, unread(tc.got))
		})
	}
}
