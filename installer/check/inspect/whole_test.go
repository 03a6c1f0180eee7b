// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	helmrelease "helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/status"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

func byCode(r check.Report, _ *check.Facts) map[string]check.Result {
	m := map[string]check.Result{}
	for _, c := range r.Checks {
		m[c.Code] = c
	}
	return m
}

// result runs one check and returns its result.
func (w *world) result(t *testing.T, code string, phase check.Phase) check.Result {
	t.Helper()
	return byCode(inspect.Run(t.Context(), w.env, check.Selection{Phase: phase, Only: []string{code}}, nil))[code]
}

// All checks work on every supported release of CloudStack, and share what they read.
func TestHealthyOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range slices.DeleteFunc(simulator.Releases(), func(v string) bool { return v < "4.18" }) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *simulator.World) { w.Version = version })
			w.env.Manifest = chartObjects
			w.storage(t)
			w.Ledger().Reset()
			w.kube.ClearActions()
			ran := map[string]check.Result{}
			for _, phase := range []check.Phase{check.PhaseInstalled, check.PhasePreflight} {
				for code, c := range byCode(inspect.Run(t.Context(), w.env, check.Selection{Phase: phase}, nil)) {
					ran[code] = c
					switch {
					case code == "HELM-002": // the objects of this test lack Helm's labels and annotations
					case c.Message == "not created by CKS: no node has such a name":
						require.Equal(t, check.Skipped, c.Outcome, code)
					default:
						require.Equal(t, check.OK, c.Outcome, "%s %s: %s %v", code, c.Title, c.Message, c.Objects)
					}
				}
			}

			require.Len(t, ran, len(check.All()))
			require.Contains(t, ran["CS-001"].Message, version+".0.0")

			// Two runs with two rules cost this many calls, whatever the number of checks.
			for command, limit := range map[string]int{
				"listVirtualMachines":           3,
				"listCapabilities":              2,
				"listApis":                      2,
				"listZones":                     2,
				"listNetworks":                  3,
				"listPublicIpAddresses":         3,
				"listLoadBalancerRules":         3,
				"listLoadBalancerRuleInstances": 2,
				"listFirewallRules":             1,
				"listProjects":                  0,
			} {
				require.LessOrEqual(t, w.Ledger().Count(command), limit, command)
			}

			for _, c := range w.Ledger().Calls() {
				require.True(t, strings.HasPrefix(c.Command, "list"), "checks change nothing: %s", c.Command)
			}

			for _, a := range w.kube.Actions() {
				review := a.GetResource().Resource == "selfsubjectaccessreviews"
				require.True(t, review || a.GetVerb() == "get" || a.GetVerb() == "list", "checks change nothing: %s",
					verbOf(a))
			}
		})
	}
}

var update = flag.Bool("update", false, "write the transcripts")

// transcript compares the output of doctor and status with docs/transcripts, and searches the output in every format
// for the keys.
func (w *world) transcript(t *testing.T, name string) check.Report {
	t.Helper()
	r, f := inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
	var b bytes.Buffer
	style := report.Style{Unicode: true, Width: 110}
	b.WriteString("$ csccm doctor\n")
	require.NoError(t, r.WriteText(&b, check.TextOptions{Style: style}))
	b.WriteString("\n$ csccm status\n")
	before := bytes.Count(b.Bytes(), []byte("\n"))
	require.NoError(t, status.New(r, f).WriteText(&b, style, false))
	const screen = 23
	require.LessOrEqual(t, bytes.Count(b.Bytes(), []byte("\n"))-before, screen, "status fits one screen of 24 lines")
	text := strings.NewReplacer(
		w.env.Cluster.Server, "https://192.0.2.10:6443", w.env.CloudConfig.APIURL,
		"https://cloud.example.org/client/api",
	).Replace(b.String())
	golden.File(t, filepath.Join("..", "..", "..", "docs", "transcripts", name), text, *update,
		"go test ./installer/check/inspect -update")

	require.NoError(t, report.Encode(&b, "json", r))
	require.NoError(t, r.WriteText(&b, check.TextOptions{Verbose: true}))
	require.NoError(t, report.Encode(&b, "yaml", r))
	require.NotContains(t, b.String(), w.env.CloudConfig.APIKey)
	require.NotContains(t, b.String(), w.env.CloudConfig.SecretKey)
	return r
}

func TestTranscriptOfAHealthyCluster(t *testing.T) {
	t.Parallel()
	require.NoError(t, newWorld(t).transcript(t, "doctor-healthy.txt").Err(check.SeverityWarning))
}

func TestTranscriptOfABrokenCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, oldName)
	w.breakAll(t)
	r := w.transcript(t, "doctor-broken.txt")
	failed, is := errors.AsType[*report.Error](r.Err(check.SeverityError))
	require.True(t, is)
	require.Equal(t, 3, failed.Code)
	// A check that reads more facts than it declares has a different result when it runs alone.
	for _, c := range r.Checks {
		alone := w.result(t, c.Code, check.PhaseInstalled)
		require.Equal(t, c.Outcome, alone.Outcome, "%+v", alone)
		if c.Code != "LB-001" { // LB-001 plans more Services when it is requested by name
			require.Equal(t, c.Objects, alone.Objects, c.Code)
		}
	}
}

// Findings of checks in situations that the transcripts do not cover.
func TestReadings(t *testing.T) {
	t.Parallel()
	for says, tc := range map[string]struct {
		code   string
		change func(w *world)
	}{
		"its clock and this machine's differ by": {"K8S-004", func(w *world) { w.behind = 30 * time.Minute }},
		"is Ready, but its last heartbeat is 10m0s old": {"K8S-004", func(w *world) {
			l := testenv.Lease("demo-cp-1")
			l.Namespace, l.Name, l.Spec.RenewTime = corev1.NamespaceNodeLease, "demo-cp-1", &metav1.MicroTime{
				Time: fixed.Add(-10 * time.Minute),
			}
			_ = w.kube.Tracker().Add(l)
			change(t, w.kube.CoreV1().Nodes(), "demo-cp-1", func(n *corev1.Node) {
				n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(fixed.Add(-time.Hour))
			})
		}},
		"lookup .* no such host": {"CS-006", func(w *world) { // lines of the log are shown without keys
			w.log += logLine('E', time.Minute, "a.go:1",
				fmt.Sprintf(`"Sync failed" err="cloudstack x: cannot reach the API: lookup %s: no such host"`,
					w.env.CloudConfig.SecretKey))
		}},
		"update leases.coordination.k8s.io in kube-system": {"K8S-003", func(w *world) {
			w.env.Replaces = []check.Object{{Kind: "Deployment", Namespace: system, Name: "cloud-controller-manager"}}
			w.deny(func(a *authorizationv1.ResourceAttributes) bool {
				return a.Verb == "update" && a.Resource == "leases"
			})
		}},
		"create daemonsets.apps in kube-system": {"K8S-003", func(w *world) {
			w.env.Manifest = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cloudstack-ccm}\n"
			w.deny(func(a *authorizationv1.ResourceAttributes) bool {
				return a.Verb == "create" && a.Resource == "daemonsets"
			})
		}},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.change(w)
			got := w.result(t, tc.code, "")
			said := got.Message
			for _, o := range got.Objects {
				said += o.Message
			}

			require.Regexp(t, says, said)
			require.NotContains(t, said, w.env.CloudConfig.SecretKey)
		})
	}
}

// A wrong project looks as if all VMs were gone. The checks say in which project they are.
func TestVMsAreInAnotherProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *simulator.World) {
		w.Projects = append(w.Projects, simulator.Project{Name: "op-proj", Owner: "k8s"})
		w.Networks = append(w.Networks, simulator.Network{Name: "op-net", Project: "op-proj", CIDR: "10.5.5.0/24"})
		w.VirtualMachines = append(w.VirtualMachines, simulator.VirtualMachine{
			ID:      "22222222-0000-4000-8000-00000000000a",
			Name:    "away",
			Project: "op-proj",
			NICs:    []simulator.NIC{{Network: "op-net"}},
		})
	})

	for _, name := range []string{"demo-cp-1", "demo-worker-1", "demo-worker-2"} {
		require.NoError(t, w.kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}

	w.add(t, newNode("away", "10.5.5.1"))
	require.Contains(
		t, w.result(t, "NODE-002", check.PhaseInstalled).Message,
		"VMs of the nodes are elsewhere, 1 in project op-proj, zone zone-1",
	)
}

// The commands in remedies have the names of nodes and the flags for the namespace and the release.
func TestRemedies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	change(t, w.kube.CoreV1().Nodes(), "demo-worker-2",
		func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "mars" })
	w.env.Namespace, w.env.Release = "cloud", "ours"
	w.env.Style.Carry = func(text string) string {
		return regexp.MustCompile(`csccm [a-z]+`).ReplaceAllString(text, "$0 -n cloud --release ours")
	}
	require.Contains(t, w.result(t, "NODE-007", check.PhaseInstalled).Remedy,
		"`csccm taint -n cloud --release ours demo-worker-2`")
	require.Contains(t, w.result(t, "CCM-001", check.PhaseInstalled).Remedy, "`csccm install -n cloud --release ours`")
}

// A missing controller is reported even if there is no Helm release that should have it.
func TestPhaseOf(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloudstack-secret"}}
	other := func(replicas int32) *appsv1.Deployment {
		d := testenv.Deployment(replicas)
		d.Name, d.Labels = "cloud-controller-manager", nil
		return d
	}

	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    check.Phase
	}{
		"a new cluster":                         {nil, check.PhasePreflight},
		"a release of Helm":                     {nil, check.PhaseInstalled},
		"a manifest with no replicas":           {[]runtime.Object{testenv.Deployment(0)}, check.PhaseInstalled},
		"a Secret without a controller":         {[]runtime.Object{secret}, check.PhaseInstalled},
		"a Secret of another provider":          {[]runtime.Object{secret, other(1)}, check.PhasePreflight},
		"a Secret, another provider is stopped": {[]runtime.Object{secret, other(0)}, check.PhaseInstalled},
	} {
		kube := fakekube.New(tc.objects...)
		if name == "a release of Helm" {
			revision(t, kube, 1, helmrelease.StatusDeployed, nil)
		}
		require.Equal(t, tc.want, inspect.PhaseOf(t.Context(), fakecluster.New(kube), release), name)
	}
}

// An API server that does not answer gets one call, because every further call would wait as long.
func TestSilentServerIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := *w.env.Cluster
	c.Silent = errors.New("Kubernetes API: no answer in time")
	w.kube.ClearActions()
	env, closeEnv := inspect.Connect(t.Context(), &c, report.Style{}, release, "",
		inspect.PhaseOf(t.Context(), &c, release))
	defer closeEnv()
	r, _ := inspect.Run(t.Context(), env, check.Selection{Phase: check.PhaseInstalled}, nil)
	require.Empty(t, w.kube.Actions())
	require.Equal(t, "Kubernetes API: no answer in time", byCode(r, nil)["K8S-001"].Message)
	require.Equal(t, 1, r.Summary.Failed)
	require.Zero(t, r.Summary.Unknown, "the rest waits for K8S-001")
}

// TestCKS: a healthy cluster of CKS has no findings, and its checks cost two calls.
func TestCKS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.Cluster(t, "c1", nil)
	for _, n := range k.Nodes {
		joined := newNode(n.Name, "10.1.9.9")
		joined.Spec.ProviderID = "external-cloudstack://" + n.ID
		w.add(t, joined)
	}

	for service, by := range map[string]string{"default/web": thisCluster, "default/gone": "another-cluster"} {
		s, err := w.env.CloudStack.AssociateIP(t.Context(), cloudstack.AssociateIPRequest{NetworkID: k.NetworkID})
		require.NoError(t, err)
		tags := map[string]string{
			"csccm-cluster":      by,
			"csccm-service":      service,
			"csccm-service-uid":  webUID,
			"csccm-allocated-by": "cloudstack-ccm",
		}
		tagged, err := w.env.CloudStack.CreateTags(t.Context(), "PublicIpAddress", []string{s.ID}, tags)
		require.NoError(t, err)
		for _, job := range []string{s.JobID, tagged.JobID} {
			_, err = w.env.CloudStack.Jobs().Wait(t.Context(), "", job)
			require.NoError(t, err)
		}
	}

	w.Ledger().Reset()
	got := byCode(inspect.Run(t.Context(), w.env, check.Selection{Only: []string{"CKS"}, Skip: []string{"CKS-001"}},
		nil))
	for code, says := range map[string]string{
		"CKS-002": "all VMs of the cluster run", "CKS-004": "nothing known is in the way",
		"CKS-005": "would leave 1 address of its Services behind: `csccm cks delete --remove-services`",
	} {
		require.Equal(t, check.OK, got[code].Outcome, "%+v", got[code])
		require.Contains(t, got[code].Message, says)
	}

	require.Equal(t, check.Unknown, got["CKS-003"].Outcome)
	require.Contains(t, got["CKS-003"].Message, "does not answer: connection refused")
	require.Equal(t, 1, w.Ledger().Count("listKubernetesClusters"))
	require.LessOrEqual(t, w.Ledger().Count("listFirewallRules"), 2, "of the cluster's address, and of all for LB-001")
}

// TestNotCKS: on other clusters the checks are skipped, with the reason.
func TestNotCKS(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(t *testing.T, w *world){
		"not created by CKS: none of its clusters has these nodes": func(*testing.T, *world) {},
		"not created by CKS: CloudStack only lists it": func(t *testing.T, w *world) {
			vms, err := w.env.CloudStack.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
			require.NoError(t, err)
			entry := &registration.Entry{
				Name:      "c1",
				ClusterID: thisCluster,
				ZoneID:    vms[0].ZoneID,
				Workers:   sets.New(vms[0].ID),
			}

			_, err = registration.Sync(t.Context(), w.env.CloudStack.Client, entry)
			require.NoError(t, err)
		},
		"not checked: the role of the keys may not list the clusters of CKS": func(_ *testing.T, w *world) {
			w.Inject(
				simulator.Fault{
					Command:    "listKubernetesClusters",
					Kind:       simulator.FaultErrorBefore,
					HTTPStatus: 432,
					Text:       "does not exist",
				},
			)
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add(t, newNode("c-control-19a2b3c4d5e", "10.1.1.50"))
			change(t, w)
			got := w.result(t, "CKS-002", check.PhaseInstalled)
			require.Equal(t, check.Skipped, got.Outcome)
			require.Equal(t, why, got.Message)
		})
	}
}
