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
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	r := &history[0]
	target, err := pick(history, revision)
	if err != nil {
		return err
	}
	c := &change{
		Env: e, action: "rollback", was: r, values: target.Values,
		to: fmt.Sprintf("revision %d, chart %s, controller %s", target.Revision, target.ChartVersion, target.AppVersion),
	}
	if c.objects, err = e.Changes(ctx, r.Manifest, target.Manifest); err != nil {
		return err
	}
	return c.run(ctx, "rollback", c.helmRelease(fmt.Sprintf(" back to revision %d", target.Revision), func(ctx context.Context) (*helm.Release, error) {
		return e.Helm.Rollback(ctx, e.Release, target.Revision)
	}))
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
