// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// Rollback makes a new revision with the content of an earlier one; revision 0
// is the newest that worked before the latest.
func Rollback(ctx context.Context, e *engine.Env, revision int) error {
	r, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	history, err := e.Helm.History(ctx, e.Release)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	target, err := pick(history, revision)
	if err != nil {
		return err
	}
	p := &Plan{
		SchemaVersion: 1, Action: "rollback", Release: e.Release, Namespace: e.Cluster.Namespace,
		From:   Version{r.Revision, r.ChartVersion, r.AppVersion},
		To:     Version{target.Revision, target.ChartVersion, target.AppVersion},
		Values: target.Values,
	}
	if p.Objects, err = e.Changes(ctx, r.Manifest, target.Manifest); err != nil {
		return err
	}
	if done, err := show(ctx, e, p); done || err != nil {
		return err
	}
	err = e.Run(ctx, "rollback", []engine.Step{
		{Name: "Helm release", Do: func(ctx context.Context, note func(string, ...any)) error {
			e.Progress.Step("Helm release %s/%s back to revision %d", p.Namespace, p.Release, target.Revision)
			next, err := e.Helm.Rollback(ctx, e.Release, target.Revision)
			if err != nil {
				e.Progress.Fail("")
				return e.Cluster.Explain(err)
			}
			note("revision %d with the content of %d", next.Revision, target.Revision)
			e.Progress.Done("revision %d, chart %s", next.Revision, next.ChartVersion)
			r = next
			return nil
		}},
		{Name: "rollout", Do: func(ctx context.Context, _ func(string, ...any)) error {
			return wayBack(e.Rollout(ctx), p.From.Revision)
		}},
	})
	if err != nil {
		return err
	}
	return finish(e, p, r, "")
}

// pick finds the revision to go back to; history is newest first.
func pick(history []helm.Release, revision int) (*helm.Release, error) {
	var known []string
	for i := range history {
		h := &history[i]
		if h.Revision == revision {
			return h, nil
		}
		known = append(known, fmt.Sprintf("%d (%s, chart %s)", h.Revision, h.Status, h.ChartVersion))
		if revision == 0 && i > 0 && (h.Status == "superseded" || h.Deployed()) {
			return h, nil
		}
	}
	if revision == 0 {
		return nil, report.Usage("there is no earlier revision that worked", "revisions: "+strings.Join(known, ", ")+"; csccm uninstall takes the controller away")
	}
	return nil, report.Usage(fmt.Sprintf("there is no revision %d", revision), "name one of "+strings.Join(known, ", "))
}
