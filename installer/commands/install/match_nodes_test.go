// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

// The administrator's login sees whose VMs the nodes are: an account, project or zone that does not have them is refused
// before a user is made in it.
func TestAdminsLoginMatchesNodes(t *testing.T) {
	t.Parallel()
	world := func() *simulator.World {
		w := simulator.ExampleWorld()
		w.Domains = append(w.Domains, simulator.Domain{Path: "ROOT/empty"})
		w.Accounts = append(w.Accounts, simulator.Account{Name: "other", Role: "User", Domain: "ROOT/empty", Users: []simulator.User{{Name: "o", Password: "password"}}})
		w.Projects = append(w.Projects, simulator.Project{Name: "p", Owner: "k8s"})
		return w
	}
	for name, tc := range map[string]struct {
		options func(*Options)
		says    string
		fix     string
	}{
		"another account": {
			options: func(o *Options) { o.Credentials.Account, o.Credentials.Domain = "other", "empty" },
			says:    "3 of 3 nodes have no VM in account other of domain ROOT/empty, zone zone-1; wrong account, project or zone: VMs of the nodes are elsewhere, 3 in account k8s of domain ROOT",
			fix:     "do not delete any Node: run `csccm install` with the place of the VMs (account k8s of domain ROOT: --account k8s --domain ROOT)",
		},
		"a project": {
			options: func(o *Options) { o.Credentials.Account, o.Project = "", "p" },
			says:    "3 of 3 nodes have no VM in project p, zone zone-1",
			fix:     "--account k8s --domain ROOT",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchOf(t, world(), "k8s-owner", demoNodes()...)
			for _, dry := range []bool{true, false} {
				o := b.admin()
				o.DryRun = dry
				tc.options(&o)
				err := b.installer(t, o).Run(t.Context())
				require.ErrorContains(t, err, tc.says)
				var r interface{ Remedy() string }
				require.ErrorAs(t, err, &r)
				require.Contains(t, r.Remedy(), tc.fix)
				require.Zero(t, b.sim.Ledger().Count("createUser", "createAccount", "createRole", "registerUserKeys", "addAccountToProject"))
			}
		})
	}
	// Some nodes may be elsewhere, for example while a cluster grows; the checks say so then.
	nodes := append(demoNodes(), aNode("elsewhere", "10.9.9.9"))
	b := newBenchOf(t, world(), "k8s-owner", nodes...)
	o := b.admin()
	o.SkipTaint = true
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
}
