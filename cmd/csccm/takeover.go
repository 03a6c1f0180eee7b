// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// takeoverFlags are the flags of takeover alone.
type takeoverFlags struct {
	fromPredecessor bool
	cloudConfig     string
	release         string
	clusterID       string
	accept, pin     []string
	keepOld         bool
	dryRun          dryRun
	look            bool // --dry-run, read
	dir             string
	undo            bool
}

func newTakeoverCommand(g *globals) *cobra.Command {
	f := &takeoverFlags{}
	cmd := &cobra.Command{
		Use:   "takeover",
		Short: "Put csccm's controller in the place of another provider, without loss of traffic",
		Long: `takeover finds another cloud controller manager for CloudStack in the cluster
(Apache's, also as CloudStack Kubernetes Service deploys it, or Leaseweb's), shows
what csccm's controller would do otherwise, Service by Service, and swaps the two.
Addresses and rules stay; two controllers never act at once.

A change of protocol, source ranges, algorithm or address, and a rule that must be
made anew, happens only after --accept SERVICE, or is kept from happening with
--pin SERVICE, which sets an annotation. On a terminal csccm asks; elsewhere it
ends with exit code 3 and changes nothing.

csccm install does all of this by itself. takeover alone is for charts that
something else installs: where both controllers use one lease, install csccm's first: it stands by. Where
the old one elects no leader, it is stopped first. takeover says what is next;
run it again after that step. It continues where it stopped.

--undo goes back after a takeover with --keep-old: csccm's controller ends, rules get
their names and annotations their values of before, then the old controller starts
again. It goes by ConfigMap csccm-takeover. Addresses, ids and members of the rules
stay, and so does what --accept has changed. An old controller that was removed has
to be applied again first, with no Pods.` + serverIsClient,
		Example: `  # look only
  csccm takeover --dry-run

  # keep what stands wherever an annotation can, agree to the rest, keep the old Deployment
  csccm takeover --pin all --accept all --keep-old --yes

  # back to the old controller
  csccm takeover --undo`,
		Args:        noArgs,
		Annotations: outputs("text", "json", "yaml"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	flags.BoolVar(&f.fromPredecessor, "from-predecessor", false, fromPredecessorUsage)
	flags.StringVar(&f.release, "release", install.DefaultRelease, "name of csccm's Helm release")
	flags.StringVar(&f.clusterID, "cluster-id", "", "name of this cluster in tags, if the chart is given one")
	flags.StringSliceVar(&f.accept, "accept", nil, "agree to the changes of this Service (namespace/name, or all)")
	flags.StringSliceVar(&f.pin, "pin", nil, "keep what stands of this Service by an annotation (namespace/name, or all)")
	flags.BoolVar(&f.keepOld, "keep-old", false, "leave the old controller in the cluster, with no Pods")
	addDryRun(cmd, &f.dryRun)
	flags.BoolVar(&f.undo, "undo", false, "go back to the old controller, after a takeover with --keep-old")
	flags.StringVar(&f.dir, "record-dir", "", "folder for the record and the journal (default the user's state folder)")
	services := completeFrom(g, consentable)
	completeFlag(cmd, "accept", services)
	completeFlag(cmd, "pin", services)
	completeFlag(cmd, "release", cobra.NoFileCompletions)
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error { return runTakeover(ctx, g, f) })
	return cmd
}

// consentable are the words that --accept and --pin take: services and all of them.
func consentable(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
	names, err := balancedServices(ctx, kube)
	return append([]string{takeover.All}, names...), err
}

// consentNames checks the form of what --accept and --pin name.
func consentNames(accept, pin []string) error {
	for _, list := range []struct {
		flag  string
		names []string
	}{{"--accept", accept}, {"--pin", pin}} {
		for _, n := range list.names {
			namespace, name, _ := strings.Cut(n, "/")
			if n != takeover.All && (namespace == "" || name == "" || strings.Contains(name, "/")) {
				return usagef("%s %q is neither NAMESPACE/NAME of a Service nor %s", list.flag, n, takeover.All)
			}
		}
	}
	return nil
}

// takeoverState says how far a takeover has come.
type takeoverState string

const (
	takeoverPlanned  takeoverState = "planned"  // nothing was changed
	takeoverPrepared takeoverState = "prepared" // csccm install is next
	takeoverDone     takeoverState = "done"
	takeoverNone     takeoverState = "nothing to do"
)

// takeoverResult is what -o json and yaml write.
type takeoverResult struct {
	*takeover.Plan
	// Tenants is nil where the policy of csccm's controller refuses no Service.
	Tenants *tenants.Plan `json:"tenants,omitempty"`
	State   takeoverState `json:"state"`
	Next    string        `json:"next,omitempty"` // command
	Journal string        `json:"journal,omitempty"`
}

func runTakeover(ctx context.Context, g *globals, f *takeoverFlags) error {
	format, err := g.wantOutput("text", "json", "yaml")
	if err != nil {
		return err
	}
	if f.look, err = f.dryRun.readWith(g.yes); err != nil {
		return err
	}
	if f.dir == "" {
		f.dir = stateDir(g.getenv)
	}
	if err := consentNames(f.accept, f.pin); err != nil {
		return err
	}
	if f.undo && (len(f.accept) > 0 || len(f.pin) > 0 || f.keepOld) {
		return usagef("--undo goes back by the record alone: leave out --accept, --pin and --keep-old")
	}
	connect := func() (*cluster.Cluster, *cloud, error) { return g.connect(ctx, f.cloudConfig) }
	if f.fromPredecessor {
		if f.cloudConfig != "" {
			return usagef("--cloud-config and --from-predecessor are both given; give one")
		}
		connect = func() (*cluster.Cluster, *cloud, error) { return g.connectAsPredecessor(ctx, f.release) }
	}
	c, cs, err := connect()
	if err != nil {
		return err
	}
	defer cs.close()
	if f.fromPredecessor {
		if _, err := fmt.Fprintf(g.errOut, "Credentials: %s\n", cs.from); err != nil {
			return err
		}
	}
	source := takeover.Source{
		Kube: c.Kube, API: cs.client, Config: cs.config, Release: f.release, Namespace: c.Namespace, ClusterID: f.clusterID,
	}
	facts, err := takeover.Detect(ctx, source)
	if err != nil {
		return c.Explain(err)
	}
	if f.undo {
		return undoTakeover(ctx, g, f, c, source, facts, format)
	}
	result := &takeoverResult{Plan: takeover.NewPlan(facts), State: takeoverPlanned} //nolint:contextcheck // decides by the facts, and waits for nothing
	if result.Tenants, err = takeoverTenants(ctx, c, facts); err != nil {
		return c.Explain(err)
	}
	result.Pin(f.pin)
	progress := g.progress()
	defer progress.Close()
	t, err := takeover.NewTaker(ctx, source, result.Plan, takeover.Options{
		Server: c.Server, Clock: g.clock, Progress: progress, Accept: f.accept, Pin: f.pin, KeepOld: f.keepOld, Dir: f.dir,
	})
	if err != nil {
		return err
	}
	run := &takeoverRun{g: g, f: f, taker: t, result: result, format: format}
	return run.run(ctx)
}

// takeoverRun is one run of the command.
type takeoverRun struct {
	g      *globals
	f      *takeoverFlags
	taker  *takeover.Taker
	result *takeoverResult
	format string
}

func (r *takeoverRun) run(ctx context.Context) error {
	if r.format == "text" {
		if err := r.result.WriteText(r.g.out, r.g.style(r.g.out)); err != nil {
			return err
		}
		if err := writeTenants(r.g, r.result.Tenants); err != nil {
			return err
		}
	}
	err := r.carryOut(ctx)
	r.result.Journal = r.taker.Journal()
	if r.format != "text" {
		if werr := report.Encode(r.g.out, r.format, r.result); err == nil {
			err = werr
		}
		return err
	}
	if err == nil {
		err = r.conclude()
	}
	return err
}

func (r *takeoverRun) carryOut(ctx context.Context) error {
	if r.result.Order == takeover.Nothing && len(r.result.Problems) == 0 {
		r.result.State = takeoverNone
		return nil
	}
	if err := r.decide(ctx); err != nil {
		return err
	}
	if err := r.taker.Check(); err != nil {
		return err
	}
	if r.f.look {
		return nil
	}
	if err := confirmTakeover(ctx, r.g, r.format); err != nil {
		return err
	}
	if err := takeSteps(ctx, r.taker.Before()); err != nil {
		return err
	}
	if r.result.Own.Ready == 0 {
		r.result.State, r.result.Next = takeoverPrepared, r.installLine()
		return nil
	}
	if err := takeSteps(ctx, r.taker.After()); err != nil {
		return err
	}
	r.result.State = takeoverDone
	return nil
}

func takeSteps(ctx context.Context, list []takeover.Step) error {
	for _, s := range list {
		if ctx.Err() == nil {
			if err := s.Do(ctx); err == nil {
				continue
			} else if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
				return err
			}
		}
		return &remediedError{fmt.Errorf("stopped before the end of step %q: %w", s.Name, context.Cause(ctx)), "run the same command again: it continues where it stopped"}
	}
	return nil
}

// installLine is what comes between the two halves.
func (r *takeoverRun) installLine() string {
	line := []string{"csccm install --skip-taint"}
	if r.result.Order == takeover.OursFirst {
		line = append(line, "--skip-check CCM-002,CCM-003")
	}
	for _, name := range slices.Sorted(maps.Keys(r.result.Values)) {
		line = append(line, "--set "+name+"="+r.result.Values[name])
	}
	return strings.Join(line, " ")
}

// decide asks about every Service that needs consent, where somebody is there to ask.
func (r *takeoverRun) decide(ctx context.Context) error {
	if r.format != "text" || !r.g.interactive() || r.g.yes || r.f.look || len(r.result.Problems) > 0 {
		return nil
	}
	return r.taker.Ask(ctx, r.g.prompter())
}

func confirmTakeover(ctx context.Context, g *globals, format string) error {
	return g.agreed(ctx, format, "carry the plan out", prompt.Question{
		Message: "Carry this out", Help: "The current state is recorded first. Run again, the command continues where it stopped.",
	})
}

// conclude says how it ended and what is next.
func (r *takeoverRun) conclude() error {
	var text string
	switch r.result.State {
	case takeoverNone:
		text = "There is no other controller: nothing to take over.\n"
	case takeoverPrepared:
		text = "Prepared. Next:\n  " + r.result.Next + "\n  csccm takeover\n"
	case takeoverDone:
		text = "Taken over. Check it:  csccm doctor\n"
		if r.f.keepOld {
			text += "The old controller is still there, with no Pods. Back to it:  csccm takeover --undo\n"
		} else if j := r.taker.Journal(); j != "" {
			text += "Names of the rules, back:  csccm migrate-rules --undo " + j + "\n"
		}
	case takeoverPlanned:
		return nil
	}
	_, err := fmt.Fprint(r.g.out, text)
	return err
}
