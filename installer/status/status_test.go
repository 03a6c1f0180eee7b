// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// setup is the setup for a release with credentials.
var setup = check.Setup{
	Namespace: "kube-system", Release: "cloudstack-ccm",
	Config: cloudstack.Config{
		APIURL:    "https://cloud.example.org/client/api",
		APIKey:    "key-canary",
		SecretKey: "secret-canary",
		Zone:      "zone-1",
	},
}

// large returns a cluster with many objects and many problems.
func large(n int) (check.Report, *check.Facts) {
	f := &check.Facts{Setup: setup, At: now, Version: "v1.37.1", Distribution: "kubeadm", CloudStackVersion: "4.22.0.0"}
	r := check.Report{SchemaVersion: 1}
	r.Cluster.Server = "https://a-load-balancer-with-a-long-name.of-a-cluster.example.org:6443"
	f.Controllers = []check.Workload{
		{
			Kind:      "Deployment",
			Namespace: "kube-system",
			Name:      "cloudstack-ccm-cloud-controller-manager",
			Wanted:    2,
			Ready:     1,
			Ours:      true,
			Images:    []string{"registry.example.org/cloudstack-ccm:v1.0.0"},
		},
		{Kind: "Deployment", Namespace: "kube-system", Name: "cloud-controller-manager"},
	}

	f.Records = []helm.Release{{Revision: 3, Status: "deployed", ChartVersion: "1.0.0", AppVersion: "v1.0.0"}}
	for i := range n {
		name := fmt.Sprintf("a-node-of-a-pool-with-a-long-name-%03d", i)
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelTopologyZone: "a-zone-with-a-name", corev1.LabelInstanceTypeStable: "Medium_Instance",
		}}}
		f.Nodes = append(f.Nodes, node)
		f.Kubelets = append(f.Kubelets, kubelet.NodeVerdict{Node: name, Verdict: kubelet.NotExternal})
		s := corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         "a-namespace",
				Name:              fmt.Sprintf("a-service-%03d", i),
				UID:               "01234567-89ab-cdef-0123-456789abcdef",
				CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			},
		}

		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		for p := range int32(10) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 8000 + p})
		}

		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
		f.Services = append(f.Services, s)
		r.Checks = append(r.Checks, check.Result{
			Code:     fmt.Sprintf("NODE-%03d", i%100),
			Category: "Nodes",
			Title:    "Title",
			Severity: check.SeverityError,
			Hint:     "https://example.org",
			Finding: check.Finding{
				Outcome:  check.Failed,
				Message:  strings.Repeat("this is not well, and that is not either; ", 4),
				Evidence: map[string]string{},
				Objects: []check.Object{
					{Kind: "Node", Name: name},
					{Kind: "Service", Namespace: "a-namespace", Name: s.Name},
				},
			},
		})

		r.Summary.Failed++
	}

	return r, f
}

func text(t *testing.T, s *Status, style report.Style, all bool) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WriteText(&b, style, all))
	return b.String()
}

// The status of any cluster fits a terminal of 24 lines and 80 columns, with the shell prompt.
func TestOneScreen(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 5, 6, 100} {
		r, f := large(n)
		s := New(r, f)
		for _, unicode := range []bool{true, false} {
			out := text(t, s, report.Style{Width: 80, Unicode: unicode}, false)
			require.LessOrEqual(t, strings.Count(out, "\n"), 23, "%d:\n%s", n, out)
			for line := range strings.Lines(out) {
				require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 80, "%q", line)
			}

			for _, part := range []string{"Cluster", "CloudStack", "Controller", "Release", "Others", "Nodes",
				"Services", "Checks"} {
				require.Contains(t, out, part)
			}

			if n > 0 {
				require.Contains(t, out, "NODE-000", "a node with its problem")
				require.Contains(t, out, "203.0.113.20")
			}

			if n == 100 {
				require.Contains(t, out, "more (-v shows all)")
			}
		}
	}
}

// The cluster's name in CloudStack's UI is shown.
func TestRegisteredCluster(t *testing.T) {
	t.Parallel()
	r, f := large(1)
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = []corev1.Container{
		{Args: []string{"--cloud-provider=external-cloudstack", "--register-cluster=prod"}},
	}
	f.Controllers[0] = check.WorkloadOf(new(cluster.DeploymentOf(d)))
	f.Controllers[0].Ours = true
	require.Contains(t, text(t, New(r, f), report.Style{Width: 200}, true), "in CloudStack's UI as prod")
}

// With -v nothing is cut.
func TestAll(t *testing.T) {
	t.Parallel()
	r, f := large(30)
	s := New(r, f)
	for _, width := range []int{0, 80, 40} {
		out := text(t, s, report.Style{Width: width}, true)
		for i := range 30 {
			require.Contains(t, out, fmt.Sprintf("a-node-of-a-pool-with-a-long-name-%03d", i))
			require.Contains(t, out, fmt.Sprintf("a-namespace/a-service-%03d", i))
		}
		require.NotContains(t, out, "...")
	}
}

// Parts that could not be read are not shown as missing.
func TestUnread(t *testing.T) {
	t.Parallel()
	f := &check.Facts{Setup: check.Setup{Namespace: "kube-system", Release: "r"}, At: now, Version: "v1.37.1"}
	for _, s := range []check.Source{check.Nodes, check.Services, check.Controllers, check.Releases} {
		f.Fail(s, errors.New("refused"))
	}
	out := text(t, New(check.Report{}, f), report.Style{}, false)
	for _, part := range []string{"Nodes", "Services", "Controller", "Release"} {
		require.Regexp(t, `(?m)^\S+ +`+part+` +could not be read$`, out)
	}
	require.NotContains(t, out, "not installed")
	require.Contains(t, out, "no usable credentials")
}

// A controller that is scaled to 0 counts as installed.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	ours := check.Workload{Kind: "Deployment", Namespace: "kube-system", Name: "cloudstack-ccm", Ours: true}
	daemons := ours
	daemons.Kind, daemons.Wanted, daemons.Ready = "DaemonSet", 2, 1
	revisions := []helm.Release{{Revision: 3, Status: "deployed", ChartVersion: "1.0.0", AppVersion: "v1.0.0"}}

	for says, f := range map[string]*check.Facts{
		"v1.0.0, Deployment, 0 of 0 Pods ready, no leader": {
			Controllers: []check.Workload{ours},
			Records:     revisions,
		},
		"v1.0.0, DaemonSet, 1 of 2 Pods ready, no leader": {
			Controllers: []check.Workload{daemons},
			Records:     revisions,
		},
		"no Deployment or DaemonSet of release cloudstack-ccm in namespace kube-system": {Records: revisions},
	} {
		f.Setup = setup
		f.Fail(check.VMs, errors.New("refused"))
		f.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}

		out := text(t, New(check.Report{}, f), report.Style{}, true)
		require.Regexp(t, `(?m)^(FAIL|✗) +Controller +`+says+`$`, out)
		require.Regexp(t, `(?m)^\? +CloudStack +could not be read$`, out)
		require.Regexp(t, `(?m)^a .* \? `, out)
		require.NotContains(t, out, "none")
	}
}

// If the leader has not renewed its lease for a minute, the line of the controller fails.
func TestStaleLeader(t *testing.T) {
	t.Parallel()
	for ago, mark := range map[time.Duration]string{time.Second: "ok", time.Minute: "FAIL"} {
		f := &check.Facts{
			Setup:       setup,
			At:          now,
			Controllers: []check.Workload{{Kind: "Deployment", Wanted: 1, Ready: 1, Ours: true}},
		}
		holder, seconds, at := "cp-1_x", int32(15), metav1.NewMicroTime(now.Add(-ago))
		l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager"}}
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}
		f.Leases = []coordinationv1.Lease{l}
		out := text(t, New(check.Report{}, f), report.Style{}, true)
		require.Regexp(t, `(?m)^`+mark+` +Controller .*leader cp-1, renewed `+ago.String()+` ago`, out)
	}
}

func TestJSONFollowsTheSchema(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for url, raw := range map[string][]byte{
		"https://github.com/csccm/csccm/blob/main/installer/status/status.schema.json": Schema,
		"https://github.com/csccm/csccm/blob/main/installer/check/report.schema.json":  check.Schema,
	} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		require.NoError(t, err)
		require.NoError(t, c.AddResource(url, doc))
	}

	schema, err := c.Compile("https://github.com/csccm/csccm/blob/main/installer/status/status.schema.json")
	require.NoError(t, err)
	fullReport, fullFacts := large(3)
	fullFacts.Fail(check.VMs, errors.New("refused"))
	for name, s := range map[string]*Status{
		"full":  New(fullReport, fullFacts),
		"empty": New(check.Report{}, &check.Facts{Setup: check.Setup{Namespace: "n", Release: "r"}, At: now}),
	} {
		var j, y bytes.Buffer
		require.NoError(t, report.Encode(&j, "json", s))
		require.NoError(t, report.Encode(&y, "yaml", s))
		fromYAML, err := yaml.YAMLToJSON(y.Bytes())
		require.NoError(t, err)
		for _, raw := range [][]byte{j.Bytes(), fromYAML} {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
			require.NoError(t, err)
			require.NoError(t, schema.Validate(doc), "%s: %s", name, raw)
			require.NotContains(t, string(raw), "canary")
		}
	}
}
