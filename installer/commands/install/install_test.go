// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/simulator"
)

// The demo's command: an administrator's login, new and existing nodes; a second run changes nothing.
func TestInstallAsAdmin(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.admin()
	e.install(t, o)
	require.Equal(t, 3, e.initialised(t))
	require.NotContains(t, e.Releases.Release().Values, "apiKey")
	require.Regexp(t, `(?s)  CloudStack  .*  Secret      create .*  Secret      create .*  Node        demo-worker-1 `,
		e.Stdout.String(), "the plan before the user is made, and the whole one")
	require.Contains(t, e.Stdout.String(), "3 of 3 nodes initialised")
	require.Contains(t, e.Stdout.String(),
		"csccm install --account k8s --set hostNetwork=false --set 'bindAddress=$(POD_IP)' --api-url "+e.cloud.URL+
			" --admin-user admin --admin-password-file FILE --zone zone-1 --yes")
	e.requireNoSecrets(t)
	require.Equal(t, 1, e.cloud.Ledger().Count("logout"), "the session is ended")

	calls := e.cloud.Ledger().Count("createUser", "registerUserKeys")
	o.Account = "ROOT/k8s" // in the form that the wizard uses
	e.install(t, o)
	require.Equal(t, 1, e.Releases.Applied, "nothing to do: no new revision")
	require.Equal(t, calls, e.cloud.Ledger().Count("createUser", "registerUserKeys"))
}

func TestInstallWithKeysAndThenTheSecret(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	o := e.keys(t)
	e.install(t, o)
	e.requireNoSecrets(t)
	e.install(t, Config{})
	require.Contains(t, e.Stdout.String(), "Repeat this install:   csccm install --yes\n")
	require.Equal(t, 1, e.Releases.Applied)

	// After an upgrade, the JSON result still has the version before it.
	e.Releases.Kept[0].ChartVersion, e.Output = "0.0.9", "json"
	e.install(t, Config{})
	require.Contains(t, e.Stdout.String(), "upgrade release kube-system/cloudstack-ccm from 0.0.9: chart")
}

// A domain administrator names their domain for the login and nothing else: the account is looked for there.
func TestInstallAsDomainAdmin(t *testing.T) {
	t.Parallel()
	w := simulator.ExampleWorld()
	w.Domains = append(w.Domains, simulator.Domain{Path: "ROOT/tenants"})
	for i := range w.Accounts {
		if w.Accounts[i].Name == "k8s" {
			w.Accounts[i].Domain = "ROOT/tenants"
		}
	}

	w.Accounts = append(w.Accounts, simulator.Account{
		Name:   "boss",
		Role:   "Domain Admin",
		Domain: "ROOT/tenants",
		Users:  []simulator.User{{Name: "boss", Password: "password"}},
	})

	e := newEnvOf(t, w, "tenants/"+testenv.Owner, demoNodes()...)
	o := e.admin()
	o.AdminUser = "boss"
	testenv.RequireRefusal(t, e.installer(t, o).Run(t.Context()), `refuses the login of user "boss" in domain "ROOT"`,
		"--admin-domain", report.ExitFailure)
	o.AdminDomain = "ROOT/tenants"
	e.install(t, o)
	require.Contains(t, e.Stderr.String(), `user "kubeadmin" in account "k8s" of domain ROOT/tenants`)
	require.Equal(t, 3, e.initialised(t))
}

// The kubelet of a Pod's node can read the keys, so the Pods run on control plane nodes if there are any. The plan says
// where they run.
func TestSecurityInstallPlacesPods(t *testing.T) {
	t.Parallel()
	cp, worker := demoNodes()[0], demoNodes()[1]
	second := aNode("demo-worker-2", "10.1.1.22")
	second.Labels["node-role.kubernetes.io/control-plane"] = ""
	for name, tc := range map[string]struct {
		nodes     []kruntime.Object
		values    map[string]any
		placement string
		want      map[string]any // expected controlPlaneOnly and replicaCount
	}{
		"one control plane node": {[]kruntime.Object{cp, worker}, nil, "on the one control plane node",
			map[string]any{"replicaCount": 1}},
		"two": {[]kruntime.Object{cp, worker, second}, nil, "on control plane nodes only", nil},
		"a managed control plane": {[]kruntime.Object{worker}, nil, "on any node, whose kubelet may then read the keys",
			map[string]any{"controlPlaneOnly": false}},
		"replicas are given": {[]kruntime.Object{cp, worker}, map[string]any{"replicaCount": 3}, "on the one",
			map[string]any{"replicaCount": 3}},
		"the operator chose": {[]kruntime.Object{cp, worker}, map[string]any{"controlPlaneOnly": false},
			"as the chart's values say", map[string]any{"controlPlaneOnly": false}},
		"a DaemonSet": {[]kruntime.Object{worker}, map[string]any{"kind": "DaemonSet"},
			"as the chart's values say", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvOf(t, simulator.ExampleWorld(), testenv.Owner, tc.nodes...)
			e.DryRun = true
			o := e.keys(t)
			o.Values = tc.values
			e.install(t, o)
			require.Contains(t, e.Stdout.String(), "  Pods        "+tc.placement)
			for _, value := range []string{"controlPlaneOnly", "replicaCount"} {
				if want, set := tc.want[value]; set {
					require.Contains(t, e.Stdout.String(), fmt.Sprintf("\n              %s: %v\n", value, want))
				} else {
					require.NotContains(t, e.Stdout.String(), value+":")
				}
			}
		})
	}
}

func TestInstallSkipsAndOverwritesIfAsked(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.putSecret(t, "[Global]\napi-url="+e.cloud.URL+"\napi-key=a\nsecret-key=b\nrate-limit=7\n")
	e.failing = []check.Result{
		{Code: "CCM-003", Finding: check.Finding{Outcome: check.Failed, Message: "another controller"}},
	}
	// while a cluster grows, some nodes may have no VM
	require.NoError(t, e.Kube.Tracker().Add(aNode("elsewhere", "10.9.9.9")))
	o := e.admin()
	o.SkipChecks, o.OverwriteSecret, o.SkipTaint = []string{"CCM-003"}, true, true
	e.DryRun = true
	e.install(t, o)
	require.Zero(t, e.Releases.Applied)
	e.DryRun = false
	e.install(t, o)
	require.InDelta(t, 7, e.config(t).RateLimit, 0, "what csccm has no flag for is kept")
	require.NotEqual(t, "a", e.config(t).APIKey)
	require.Contains(t, e.Stderr.String(),
		"nodes left as before (--skip-taint): csccm taint has the controller initialise them")
	require.Equal(t, 1, e.initialised(t))
}

// planned returns the changes in a part of the plan that was written as JSON.
func (e *env) planned(t *testing.T, part string) []engine.Change {
	t.Helper()
	var p engine.Plan
	require.NoError(t, json.Unmarshal(e.Stdout.Bytes(), &p))
	return slices.DeleteFunc(p.Changes, func(c engine.Change) bool { return c.Part != part })
}

func TestInstallDryRun(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Yes, e.DryRun, e.Output = false, true, "json"
	for _, keys := range []bool{false, true} {
		e.Stdout.Reset()
		o := e.admin()
		if keys {
			o = e.keys(t)
		}
		e.install(t, o)
		require.Regexp(t, "^install release kube-system/cloudstack-ccm", e.planned(t, "Helm")[0].Text)
		require.Equal(t, "create kube-system/cloudstack-secret", e.planned(t, "Secret")[0].Text)
		if keys { // with keys, csccm can also plan the nodes
			require.Regexp(t, "^demo-worker-1 is initialised by a taint .*, first", e.planned(t, "Node")[1].Text)
		} else {
			require.Len(t, e.planned(t, "CloudStack"), 2)
			require.Empty(t, e.planned(t, "Node"))
		}
	}

	require.Zero(t, e.cloud.Ledger().Count("createUser"))
	e.requireNoSecrets(t)
	for _, a := range e.Kube.Actions() {
		require.Contains(t, []string{"get", "list", "watch"}, a.GetVerb(), "%v", a)
	}
}

// ^C ends the run at the next step; run again, it continues.
func TestInstallInterruptedThenContinued(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	e.Kube.PrependReactor("create", "secrets", func(ktesting.Action) (bool, kruntime.Object, error) {
		cancel(why) // in the middle of a step
		return false, nil, nil
	})
	err := e.installer(t, e.admin()).Run(ctx)
	require.ErrorIs(t, err, why)
	// The step in progress is finished.
	testenv.RequireRefusal(t, err, `stopped before the end of step "self-test in the cluster"`, "continues",
		report.ExitFailure)
	require.Zero(t, e.Releases.Applied)

	e.install(t, e.admin())
	require.Equal(t, 1, e.cloud.Ledger().Count("createUser"))
	require.Equal(t, 3, e.initialised(t))
}

// If the controller does not run, the error says why and how to go back, Events and its log are shown without keys, and
// no node is changed.
func TestControllerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Releases.Kept = []helm.Release{{Name: "cloudstack-ccm", Revision: 7, Status: "deployed", ChartVersion: "0.0.1"}}
	e.pods = func(d *appsv1.Deployment) []*corev1.Pod {
		d.Status.AvailableReplicas = 0
		return []*corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "p0"},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				RestartCount: 3,
				State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
				},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
			}}},
		}}
	}

	o := e.keys(t)
	secret := o.Answers["secret-key"]
	require.NoError(t, e.Kube.Tracker().Add(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: "e"},
		Type:       corev1.EventTypeWarning,
		Reason:     "Failed",
		Message:    "pull refused for " + secret, InvolvedObject: corev1.ObjectReference{Name: "p0"},
		LastTimestamp: metav1.Now(),
	}))

	e.PodLogs = func(context.Context, *corev1.Pod, int64) (string, error) {
		return "cannot use " + secret + " here\n", nil
	}
	err := e.installer(t, o).Run(t.Context())
	testenv.RequireRefusal(t, err,
		"the controller does not start: 2 of 2 Pods updated, 0 available; Pod p0: CrashLoopBackOff (last "+
			"exit code 1)",
		"kubectl -n kube-system describe deployment", report.ExitFailure)
	require.Contains(t, report.RemedyOf(err), "; or go back with csccm rollback 7")

	require.Contains(t, e.Stderr.String(), "Event: pull refused for ***")
	require.Contains(t, e.Stderr.String(), "cannot use *** here")
	e.requireNoSecrets(t)
	require.Zero(t, e.initialised(t))
}

// --ca-file makes csccm trust a private authority, also in later commands that only have the Secret.
func TestPrivateCertificate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	server := httptest.NewTLSServer(e.cloud.Handler())
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t,
		os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	o := e.keys(t)
	o.Answers["api-url"], o.Flags = server.URL+"/client/api", access.Settings{"ca-file": ca}
	e.install(t, o)
	e.install(t, Config{Values: e.Releases.Release().Values})
}

// The controller's user is the one whose keys are in the Secret, whichever user the first install created or got.
func TestInstallAgainAfterRotateKeys(t *testing.T) {
	t.Parallel()
	for name, users := range map[string]int{"administrator": 2, "administrator, named user": 2, "keys": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.onePod()
			o := e.admin() // a person repeats the install with the same flags and files
			switch name {
			case "keys":
				o = e.keys(t)
			case "administrator, named user":
				o.User = "csccm"
			}

			made := func() int { return e.cloud.Ledger().Count("createUser", "registerUserKeys") }
			e.install(t, o)
			for range 3 {
				e.rotate(t)
				keys, calls := e.Secret(t, access.SecretName), made()
				e.install(t, o)
				require.Equal(t, keys, e.Secret(t, access.SecretName), "the Secret is not changed")
				require.Equal(t, calls, made(), "no user and no keys are made")
			}

			require.Equal(t, users, e.cloud.Ledger().Count("createUser"), "rotations take two users in turn")
			e.requireNoSecrets(t)
		})
	}
}

// The role allows what an entry in CloudStack's UI needs if the controller is asked to keep one, and not otherwise.
func TestRoleAllowsTheEntry(t *testing.T) {
	t.Parallel()
	without, with := &run{Config: &Config{}}, &run{Config: &Config{Values: map[string]any{"registerCluster": "prod"}}}
	require.Subset(t, with.roleCommands(), registration.Commands)
	require.NotSubset(t, without.roleCommands(), registration.Commands)
}

// Every permission that a complete installation needs is checked by K8S-003.
func TestInstallRightsAreComplete(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.install(t, e.admin())
	needed, optional := rights.Requests("install", metav1.NamespaceSystem, nil)
	all := slices.Concat(needed, optional)
	asked := 0
	for _, a := range e.Kube.Actions() {
		r := a.GetResource()
		if r.Resource == "" ||
			a.GetVerb() == "watch" ||
			r.Resource == "selfsubjectaccessreviews" ||
			r.Resource == "version" {
			continue
		}

		if r.Resource == "nodes" && a.GetVerb() == "update" || r.Resource == "deployments" && a.GetVerb() == "create" {
			continue // the controller and Helm make these calls
		}

		if r.Resource == "namespaces" && a.GetVerb() == "create" {
			continue // needed only if the namespace does not exist, as here
		}

		asked++
		want := rights.Request{Verb: a.GetVerb(), Group: r.Group, Resource: r.Resource, Namespace: a.GetNamespace()}
		if s := a.GetSubresource(); s != "" {
			want.Resource += "/" + s
		}

		everywhere := want
		everywhere.Namespace = ""
		require.True(t, slices.Contains(all, want) || slices.Contains(all, everywhere), "%s", want)
	}

	require.Positive(t, asked)
}
