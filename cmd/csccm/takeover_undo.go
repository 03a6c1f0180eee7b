// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// undoneTakeover is what -o json and yaml write of --undo.
type undoneTakeover struct {
	*takeover.UndoPlan
	State   takeoverState `json:"state"`
	Journal string        `json:"journal,omitempty"`
}

// undoTakeover shows the way back, asks, and goes it.
func undoTakeover(ctx context.Context, g *globals, f *takeoverFlags, c *cluster.Cluster, source takeover.Source, facts *takeover.Facts, format string) error {
	records, err := takeover.ReadRecords(ctx, c.Kube, c.Namespace)
	if err != nil {
		return c.Explain(err)
	}
	result := &undoneTakeover{UndoPlan: takeover.NewUndoPlan(records, facts), State: takeoverPlanned}
	if format == "text" {
		if err := result.WriteText(g.out, g.style(g.out)); err != nil {
			return err
		}
	}
	progress := g.progress()
	defer progress.Close()
	u, err := takeover.NewUndoer(ctx, source, result.UndoPlan, takeover.Options{Server: c.Server, Clock: g.clock, Progress: progress, Dir: f.dir})
	if err != nil {
		return err
	}
	err = goBack(ctx, g, f, result, u, format)
	result.Journal = u.Journal()
	if format != "text" {
		if werr := report.Encode(g.out, format, result); err == nil {
			err = werr
		}
		return err
	}
	if err == nil && result.State == takeoverDone {
		_, err = fmt.Fprint(g.out, "The old controller works again. csccm's release is still there, with no Pods; remove it:  csccm uninstall --orphan-load-balancers\n")
	}
	return err
}

func goBack(ctx context.Context, g *globals, f *takeoverFlags, result *undoneTakeover, u *takeover.Undoer, format string) error {
	if err := result.Blocked(); err != nil {
		return err
	}
	if !result.Needed() {
		result.State = takeoverNone
	}
	if f.look || !result.Needed() && !g.yes {
		return nil
	}
	if err := confirmTakeover(ctx, g, format); err != nil {
		return err
	}
	if err := takeSteps(ctx, u.Steps()); err != nil {
		return err
	}
	result.State = takeoverDone
	return nil
}
