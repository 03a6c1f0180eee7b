// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// migrateFlags are the flags of migrate-rules alone.
type migrateFlags struct {
	cloudConfig         string
	loadBalancers       []string
	includeUnattributed bool
	deleteOrphans       bool
	dryRun              dryRun
	look                bool // --dry-run, read
	journal, undo       string
}

func newMigrateRulesCommand(g *globals) *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:   "migrate-rules",
		Short: "Rename load balancer rules of older providers in place, without loss of traffic",
		Long: `migrate-rules finds the load balancer rules that older providers made, and gives
them the names that the controller knows: LB-PORT becomes LB-PROTOCOL-PORT. A rule
keeps its id, address, members and traffic; a rule without a protocol gets tcp.

It shows its plan first. On a terminal it then asks; elsewhere it needs --yes, and
ends with exit code 2 without it. By default it renames rules of this cluster's Services only; rules
that belong to none are shown, and are renamed when --lb names their load balancer.

Where several rules serve one port of a Service, the one on the Service's address
stays, and the others are deleted once it is seen to serve. Rules of Services that
are gone are deleted with --delete-orphans, when all their members are nodes of
this cluster. Rules of other clusters, and what cannot be attributed, are left alone.

What it does is written to a journal, line by line; --undo JOURNAL goes back.` + serverIsClient,
		Example: `  # look only
  csccm migrate-rules --dry-run

  # do it without a question
  csccm migrate-rules --yes

  # also the rules of a load balancer whose Service is gone
  csccm migrate-rules --lb a0123456789abcdef0123456789abcde

  # back to the old names
  csccm migrate-rules --undo ~/.local/state/csccm/migrate-rules-20260101T120000.000Z.jsonl`,
		Args:        noArgs,
		Annotations: outputs("text", "json", "yaml"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	flags.StringSliceVar(&f.loadBalancers, "lb", nil, "rename the rules of this load balancer too, although no Service of the cluster has it")
	flags.BoolVar(&f.includeUnattributed, "include-unattributed", false, "rename all rules with an old name, regardless of their owner")
	flags.BoolVar(&f.deleteOrphans, "delete-orphans", false, "delete rules whose Service is gone and whose members are all nodes of this cluster")
	addDryRun(cmd, &f.dryRun)
	flags.StringVar(&f.journal, "journal", "", "file for the journal, which must not exist (default in the user's state folder)")
	flags.StringVar(&f.undo, "undo", "", "undo what this journal records")
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error { return migrateRules(ctx, g, f) })
	return cmd
}

// migrateResult is what -o json and yaml write.
type migrateResult struct {
	SchemaVersion int            `json:"schemaVersion"`
	DryRun        bool           `json:"dryRun"`
	Rules         []migrate.Item `json:"rules"`
	Steps         []migrate.Step `json:"steps"`
	// Done is how many of the steps are done.
	Done    int    `json:"done"`
	Journal string `json:"journal,omitempty"`
	// Emptied are addresses that carry no rule once the steps are done.
	Emptied []migrate.Address `json:"emptied,omitempty"`
}

// migration is one run of the command.
type migration struct {
	g       *globals
	f       *migrateFlags
	format  string
	cluster *cluster.Cluster
	cloud   *cloud
	project string
	// header and back are what the journal of --undo says.
	header migrate.Header
	back   []migrate.Step
	gone   []string // what --undo cannot do
	// emptied are addresses that lose their last rule.
	emptied []migrate.Address
}

func migrateRules(ctx context.Context, g *globals, f *migrateFlags) error {
	format, err := g.wantOutput("text", "json", "yaml")
	if err != nil {
		return err
	}
	if f.look, err = f.dryRun.readWith(g.yes); err != nil {
		return err
	}
	if f.undo != "" && (len(f.loadBalancers) > 0 || f.includeUnattributed || f.deleteOrphans) {
		return usagef("--undo goes back by its journal alone: leave out --lb, --include-unattributed and --delete-orphans")
	}
	m := &migration{g: g, f: f, format: format}
	if err := m.readFiles(); err != nil {
		return err
	}
	if m.cluster, m.cloud, err = g.connect(ctx, f.cloudConfig); err != nil {
		return err
	}
	defer m.cloud.close()
	inv := inventory.New(m.cloud.client, inventory.Options{ProjectID: m.cloud.config.ProjectID, Zone: m.cloud.config.Zone})
	if m.project, err = inv.ProjectID(ctx); err != nil {
		return err
	}
	plan, err := m.plan(ctx, inv)
	if err != nil {
		return err
	}
	return m.carryOut(ctx, plan)
}

// readFiles reads and checks what needs no connection.
func (m *migration) readFiles() error {
	if m.f.journal != "" {
		if _, err := os.Lstat(m.f.journal); err == nil {
			return &remediedError{usagef("--journal %s exists already; it is not overwritten", m.f.journal), "name a file that is new with --journal"}
		}
	}
	if m.f.undo == "" {
		return nil
	}
	file, err := os.Open(m.f.undo)
	if err != nil {
		return &remediedError{usagef("--undo: %w", err), "name the journal that the run to undo has named, which you may read"}
	}
	defer func() { _ = file.Close() }()
	if m.header, m.back, err = migrate.ReadJournal(file); err != nil {
		return &remediedError{usagef("--undo %s: %w", m.f.undo, err), "name the journal that the run to undo has named"}
	}
	return nil
}

func (m *migration) plan(ctx context.Context, inv *inventory.Inventory) (migrate.Plan, error) {
	var in migrate.Inventory
	var err error
	if m.f.undo != "" {
		return m.undoPlan(ctx)
	}
	services, err := m.cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return migrate.Plan{}, m.cluster.Explain(err)
	}
	in.Services = services.Items
	if in.Rules, err = migrate.Read(ctx, m.cloud.client, m.project); err != nil {
		return migrate.Plan{}, err
	}
	nodes, err := m.cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return migrate.Plan{}, m.cluster.Explain(err)
	}
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return migrate.Plan{}, err
	}
	in.NodeVMs = map[string]bool{}
	for i := range nodes.Items {
		if vm, err := node.Match(vms, &nodes.Items[i]); err == nil {
			in.NodeVMs[vm.ID] = true
		}
	}
	plan := migrate.MakePlan(in, migrate.Selection{
		LoadBalancers: m.f.loadBalancers, IncludeUnattributed: m.f.includeUnattributed, DeleteOrphans: m.f.deleteOrphans,
	})
	if unknown := plan.UnknownLoadBalancers; len(unknown) > 0 {
		return migrate.Plan{}, &remediedError{
			usagef("--lb %s: no rule is of that load balancer", strings.Join(unknown, ", ")),
			"name the part of a rule's name that stands before the protocol and the port; csccm migrate-rules --dry-run shows the rules",
		}
	}
	m.emptied = migrate.Emptied(in.Rules, plan.Steps)
	m.readUse(ctx)
	return plan, nil
}

// readUse finds out what else the emptied addresses are for. It is part of a hint, so an error only leaves it out.
func (m *migration) readUse(ctx context.Context) {
	if len(m.emptied) == 0 {
		return
	}
	addresses, _ := m.cloud.client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: m.project})
	forwards, _ := m.cloud.client.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: m.project})
	migrate.Used(m.emptied, addresses, forwards)
}

// undoPlan makes the steps back from a journal, without those that are done already.
func (m *migration) undoPlan(ctx context.Context) (migrate.Plan, error) {
	if h := &m.header; h.APIURL != m.cloud.config.APIURL || h.ProjectID != m.project {
		return migrate.Plan{}, &remediedError{
			usagef("--undo %s: it is about %s, project %q; the credentials are for %s, project %q",
				m.f.undo, h.APIURL, h.ProjectID, m.cloud.config.APIURL, m.project),
			"name the journal of this CloudStack, or give its credentials with --cloud-config",
		}
	}
	rules, err := migrate.Read(ctx, m.cloud.client, m.project)
	if err != nil {
		return migrate.Plan{}, err
	}
	m.back, m.gone = migrate.Remaining(m.back, rules)
	return migrate.Plan{Items: []migrate.Item{}, Steps: m.back}, nil
}

// allowed refuses to change the rules of a provider that still works: it would make them again.
func (m *migration) allowed(ctx context.Context, p *migrate.Plan) error {
	touched := 0
	for i := range p.Items {
		if it := &p.Items[i]; it.Family == migrate.FamilyLeaseweb && it.Verdict == migrate.VerdictRename {
			touched++
		}
	}
	for i := range p.Steps {
		if p.Steps[i].Action == migrate.ActionDelete {
			touched++
		}
	}
	if touched == 0 {
		return nil
	}
	env := &check.Env{Cluster: m.cluster, Namespace: m.cluster.Namespace, Release: install.DefaultRelease}
	r := check.Run(ctx, env, check.Selection{Only: []string{"CCM-003"}}, nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.Summary.OK == len(r.Checks):
		return nil
	}
	var where []string
	for _, c := range r.Checks {
		for _, o := range c.Objects {
			where = append(where, o.String())
		}
	}
	if len(where) == 0 {
		where = []string{"another cloud controller manager (CCM-003 could not be judged)"}
	}
	return &report.Error{
		What: fmt.Sprintf("%s may still work with %s of the plan, and would make them again: nothing was changed", strings.Join(where, ", "), migrate.CountRules(touched)),
		Fix:  "take its place with csccm takeover, or stop it first", Code: report.ExitCheckFailed,
	}
}

func (m *migration) carryOut(ctx context.Context, plan migrate.Plan) error {
	result := &migrateResult{SchemaVersion: 1, DryRun: true, Rules: plan.Items, Steps: plan.Steps, Emptied: m.emptied}
	if m.format == "text" {
		if err := m.show(&plan); err != nil {
			return err
		}
	}
	var goOn bool
	err := m.allowed(ctx, &plan)
	if err == nil {
		goOn, err = m.confirm(ctx, plan.Steps)
	}
	if goOn {
		result.DryRun = false
		err = m.apply(ctx, plan.Steps, result)
	}
	if m.format != "text" {
		if werr := report.Encode(m.g.out, m.format, result); werr != nil && err == nil {
			err = werr
		}
	}
	return err
}

// confirm reports whether to go on: never with --dry-run, always with --yes, else by asking.
func (m *migration) confirm(ctx context.Context, steps []migrate.Step) (bool, error) {
	if len(steps) == 0 || m.f.look {
		return false, nil
	}
	err := m.g.agreed(ctx, m.format, migrate.ToDo(steps), prompt.Question{
		Message: capital(migrate.ToDo(steps)),
		Help:    "A renamed rule keeps its id, address, members and traffic. A journal makes it possible to go back.",
	})
	return err == nil, err
}

func (m *migration) apply(ctx context.Context, steps []migrate.Step, result *migrateResult) error {
	path := journalPath(m.g, m.f.journal, "migrate-rules")
	journal, err := migrate.CreateJournal(path, migrate.Header{
		APIURL: m.cloud.config.APIURL, ProjectID: m.project, Cluster: m.cluster.Server,
	}, clock.RealClock{})
	if err != nil {
		return &remediedError{err, "name a file that is new, on a disk with room, with --journal"}
	}
	defer func() { _ = journal.Close() }()
	result.Journal = journal.Path()
	progress := m.g.progress()
	defer progress.Close()
	a := &migrate.Applier{API: m.cloud.client, Jobs: m.cloud.client.Jobs(), ProjectID: m.project, Journal: journal}
	a.Starting = func(s migrate.Step) { progress.Step("%s", describeStep(s)) }
	a.Progress = func(_ migrate.Step, what string) { progress.Done("%s", what) }
	result.Done, err = a.Apply(ctx, steps)
	if err != nil {
		progress.Fail("%v", err)
		return &remediedError{
			fmt.Errorf("%s of %d done: %w", migrate.CountRules(result.Done), len(steps), err),
			"run the command again to go on, or undo with: " + m.undoLine(path),
		}
	}
	if m.format == "text" {
		_, err = fmt.Fprintf(m.g.out, "%s; journal: %s\nUndo:  %s\n", migrate.Did(steps), path, m.undoLine(path))
	}
	return err
}

// undoLine is the command that undoes what a journal records.
func (m *migration) undoLine(journal string) string {
	words := []string{"csccm"}
	if m.cluster.Namespace != "kube-system" {
		words = append(words, "-n", m.cluster.Namespace)
	}
	words = append(words, "migrate-rules", "--undo", journal)
	if m.f.cloudConfig != "" {
		words = append(words, "--cloud-config", m.f.cloudConfig)
	}
	return install.ShellLine(words)
}
