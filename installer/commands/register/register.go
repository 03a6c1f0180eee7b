// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/registration"
)

// Action says what is done with a VM.
type Action string

// Actions.
const (
	Add     Action = "add"
	Keep    Action = "keep"
	Remove  Action = "remove" // from the entry: its node has left
	Skipped Action = "skip"   // see Row.Why
)

// Row is a node with its VM, or a VM of no node.
type Row struct {
	Node         string `json:"node,omitempty"`
	VM           string `json:"vm,omitempty"`
	VMID         string `json:"vmID,omitempty"`
	ControlPlane bool   `json:"controlPlane"`
	Action       Action `json:"action"`
	Why          string `json:"why,omitempty"`
}

// Result is the plan, and what -o json and yaml write.
type Result struct {
	SchemaVersion int    `json:"schemaVersion"`
	DryRun        bool   `json:"dryRun"`
	Name          string `json:"name"`
	ClusterID     string `json:"clusterID"`
	EntryID       string `json:"entryID,omitempty"`
	// KeptByController: the controller keeps the entry, and the command changes nothing.
	KeptByController bool     `json:"keptByController"`
	Changes          []string `json:"changes"`
	// Done is how many of the changes were made.
	Done int   `json:"done"`
	Rows []Row `json:"nodes"`
}

// Run registers the cluster under a name; "" is the name that it has, or one that is asked for.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, name string) error {
	f, err := Read(ctx, e.Cluster, cs, e.Release)
	if err != nil {
		return err
	}
	if name, err = f.name(ctx, e, name); err != nil {
		return err
	}
	w, rows, err := f.wanted(ctx, e, name)
	if err != nil {
		return err
	}
	p, err := registration.MakePlan(f.Entries, w)
	if err != nil {
		return explain(err)
	}
	r := f.result(p, w, rows)
	calls := p.Calls(f.Project, w)
	for i := range calls {
		r.Changes = append(r.Changes, calls[i].Text)
	}
	op := engine.Operation{
		Name: "register", What: "register the cluster as " + name + " in CloudStack's UI",
		Question: prompt.Question{Help: "CloudStack only displays the entry: no VM is changed."},
		Plan:     r, Show: func(w io.Writer) error { return r.write(e, w) },
	}
	if r.KeptByController {
		e.Progress.Info("the controller keeps the entry (chart value registerCluster=%s); nothing is left to this command", name)
		return e.Run(ctx, op)
	}
	if len(calls) > 0 {
		op.Check = func(ctx context.Context) error { return Allowed(ctx, cs, registration.Commands) }
	}
	for i := range calls {
		op.Steps = append(op.Steps, step(e, cs, r, p, &calls[i]))
	}
	if err := e.Run(ctx, op); err != nil || e.DryRun {
		return err
	}
	e.Progress.Info("csccm upgrade --set registerCluster=%s has the controller keep the entry; without it, run csccm register again when nodes have joined or left", name)
	return nil
}

func step(e *engine.Env, cs *cloud.Cloud, r *Result, p *registration.Plan, c *registration.Call) engine.Step {
	return engine.Step{Name: c.Text, Do: func(ctx context.Context, note engine.Note) error {
		r.DryRun = false
		e.Progress.Step("%s", strings.ToUpper(c.Text[:1])+c.Text[1:])
		// A call that was cut off could have been carried out all the same.
		if err := engine.Shielded(ctx, func(ctx context.Context) error { return c.Do(ctx, cs.Client) }); err != nil {
			return report.Remedied(err, "run the same command again to go on")
		}
		r.Done, r.EntryID = r.Done+1, p.EntryID
		note("%s", c.Text)
		e.Progress.Done("")
		return nil
	}}
}

// name returns the entry's name. A name cannot be changed in CloudStack.
func (f *Facts) name(ctx context.Context, e *engine.Env, given string) (string, error) {
	given = strings.TrimSpace(given)
	has := ""
	if own := f.Own(); own != nil {
		has = own.Name
	}
	switch {
	case f.KeptAs != "" && given != "" && given != f.KeptAs:
		return "", &report.Error{
			What: fmt.Sprintf("nothing was changed: the controller keeps this cluster's entry under the name %s (chart value registerCluster)", f.KeptAs),
			Fix:  fmt.Sprintf("leave the name out, or end that with csccm upgrade --set registerCluster= and csccm unregister, then csccm register %s", given),
			Code: report.ExitCheckFailed,
		}
	case f.KeptAs != "":
		return f.KeptAs, nil
	case has != "" && given != "" && given != has:
		return "", &report.Error{
			What: fmt.Sprintf("nothing was changed: this cluster is registered as %s, and CloudStack cannot rename an entry", has),
			Fix:  fmt.Sprintf("csccm register %s, or csccm unregister and then csccm register %s", has, given), Code: report.ExitCheckFailed,
		}
	}
	if name := cmp.Or(given, has); name != "" {
		return name, nil
	}
	if !e.Interactive || e.Structured() {
		fix := "csccm register NAME"
		if e.Cluster.Name != "" {
			fix += "; the kubeconfig calls the cluster " + e.Cluster.Name
		}
		return "", report.Usage("the cluster has no name in CloudStack's UI yet, and none is given", fix)
	}
	name, err := e.Prompt.Input(ctx, prompt.Question{
		Message: "Name of the cluster in CloudStack's UI", Default: e.Cluster.Name, Flag: "NAME",
		Validate: func(s string) error {
			if strings.TrimSpace(s) == "" {
				return errors.New("a name is needed")
			}
			return nil
		},
	})
	return strings.TrimSpace(name), err
}

// wanted returns the entry that the cluster should have, and a row for each node.
func (f *Facts) wanted(ctx context.Context, e *engine.Env, name string) (*registration.Wanted, []Row, error) {
	list, err := e.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, e.Cluster.Explain(err)
	}
	vms, err := f.inventory.VMs(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	var all, found []*corev1.Node
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	for _, n := range all {
		row := Row{Node: n.Name, ControlPlane: node.ControlPlane(n), Action: Keep}
		vm, err := node.Match(vms, n)
		if err == nil && n.Spec.ProviderID == "" {
			err = node.Unshared(&vm, n, all)
		}
		if err != nil {
			row.Action, row.Why = Skipped, err.Error()
		} else {
			row.VM, row.VMID = vm.Name, vm.ID
			// A node that is not initialised yet is found by its name.
			n = n.DeepCopy()
			n.Spec.ProviderID = node.ProviderID(node.FormUpstream, vm.ID)
			found = append(found, n)
		}
		rows = append(rows, row)
	}
	w := registration.WantedOf(name, f.ClusterID, found, vms)
	if w.ZoneID == "" {
		fix := "csccm doctor says why"
		if len(rows) > 0 {
			fix = rows[0].Why + "; " + fix
		}
		return nil, nil, &report.Error{
			What: "nothing was changed: CloudStack shows no VM for any of " + plural.Count(len(rows), "node"), Fix: fix, Code: report.ExitCheckFailed,
		}
	}
	if own := f.Own(); own != nil {
		rows = append(rows, left(own, w, vms)...)
	}
	return w, rows, nil
}

// left returns a row for each VM of the entry that is of no node.
func left(own *cloudstack.KubernetesCluster, w *registration.Wanted, vms node.Lookup) []Row {
	var out []Row
	for _, id := range own.VMs {
		if !slices.Contains(w.Control, id) && !slices.Contains(w.Workers, id) {
			vm, _ := vms.ByID(id)
			out = append(out, Row{VM: vm.Name, VMID: id, Action: Remove})
		}
	}
	return out
}

func (f *Facts) result(p *registration.Plan, w *registration.Wanted, rows []Row) *Result {
	r := &Result{
		SchemaVersion: 1, DryRun: true, Name: w.Name, ClusterID: w.ClusterID, EntryID: p.EntryID, KeptByController: f.KeptAs != "", Changes: []string{}, Rows: rows,
	}
	for i := range rows {
		if slices.Contains(p.AddControl, rows[i].VMID) || slices.Contains(p.AddWorkers, rows[i].VMID) {
			rows[i].Action = Add
		}
	}
	return r
}

// explain gives the errors of a plan their remedies.
func explain(err error) error {
	e := &report.Error{What: "nothing was changed", Err: err, Code: report.ExitCheckFailed, Fix: "none is needed: CloudStack's UI lists the cluster under the name that it was created with"}
	var taken *registration.TakenError
	var shown *registration.ShownError
	switch {
	case errors.As(err, &taken):
		e.Fix = fmt.Sprintf("csccm register with another name than %s", taken.Name)
	case errors.As(err, &shown):
		e.Fix = fmt.Sprintf("delete entry %s in CloudStack's UI and run csccm register again, unless another tool keeps it (Cluster API does with syncWithACS)", shown.Name)
	}
	return e
}

func (r *Result) write(e *engine.Env, w io.Writer) error {
	state := "is registered in CloudStack's UI"
	switch {
	case r.EntryID == "":
		state = "is not registered in CloudStack's UI yet"
	case r.KeptByController:
		state += ", which the controller keeps"
	}
	if _, err := fmt.Fprintf(w, "Cluster %s %s.\n", r.Name, state); err != nil {
		return err
	}
	t := report.Table{Header: []string{"NODE", "VM", "ROLE", "ACTION"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		role, action := "worker", string(row.Action)
		if row.ControlPlane {
			role = "control plane"
		}
		switch row.Action {
		case Keep:
			action = "none: it is in the entry"
		case Skipped:
			action = "none: " + row.Why
		case Remove:
			role, action = "-", "remove from the entry: it is of no node; the VM stays"
		case Add:
		}
		t.Add(cmp.Or(row.Node, "-"), cmp.Or(row.VM, row.VMID, "-"), role, action)
	}
	return t.Write(w, e.StyleOf(w))
}
