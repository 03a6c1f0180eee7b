// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/plural"
)

// undoTaint sets the nodes back.
func undoTaint(ctx context.Context, g *globals, f *taintFlags, format string) error {
	var s *taint.Snapshot
	var err error
	if f.snapshot != "" { // judged first: that needs no network
		if s, err = taint.ReadSnapshotFile(f.snapshot); err != nil {
			return &remediedError{usagef("--snapshot: %w", err), "name the file that csccm taint has named; without --snapshot the one in the cluster is taken"}
		}
	}
	c, err := g.cluster(ctx)
	if err != nil {
		return err
	}
	if s == nil {
		if s, err = taint.ReadSnapshot(ctx, c.Kube, c.Namespace); err != nil {
			return c.Explain(err)
		}
	}
	if f.snapshot != "" && s.Server != c.Server {
		return usagef("the snapshot is of %s, the cluster is %s", s.Server, c.Server)
	}
	e := &taint.Executor{Kube: c.Kube}
	planned, err := e.PlanUndo(ctx, s)
	if err != nil {
		return c.Explain(err)
	}
	n := 0
	for i := range planned {
		if planned[i].Changes() {
			n++
		}
	}
	what := "set back " + plural.Count(n, "node")
	if f.look || n == 0 {
		return showUndo(g, format, planned, true)
	}
	if format == "text" && !g.yes {
		if err := showUndo(g, format, planned, true); err != nil {
			return err
		}
	}
	if err := g.agreed(ctx, format, what, prompt.Question{Message: "Set the labels of the nodes back that csccm tainted"}); err != nil {
		return err
	}
	undone, err := e.Undo(ctx, s)
	if werr := showUndo(g, format, undone, false); err == nil {
		err = werr
	}
	return c.Explain(err)
}

// showUndo writes what an undo does to each node.
func showUndo(g *globals, format string, nodes []taint.Undone, planned bool) error {
	if format != "text" {
		return report.Encode(g.out, format, map[string]any{"schemaVersion": 1, "dryRun": planned, "nodes": nodes})
	}
	style := g.style(g.out)
	title := "SET BACK"
	if planned {
		title = "TO SET BACK"
	}
	t := report.Table{Header: []string{"NODE", title, "STAYS"}}
	for i := range nodes {
		u := &nodes[i]
		lines := []string{}
		for _, l := range u.Labels {
			lines = append(lines, l.String())
		}
		if u.Taint {
			lines = append(lines, "taint "+taint.Key+" is removed")
		}
		switch {
		case u.Skipped != "":
			lines = []string{"nothing: " + u.Skipped}
		case len(lines) == 0:
			lines = []string{"nothing"}
		}
		stays := ""
		if u.KeepsProviderID != "" {
			stays = "provider ID " + u.KeepsProviderID
		}
		t.Add(u.Node, strings.Join(lines, "; "), stays)
	}
	return t.Write(g.out, style)
}
