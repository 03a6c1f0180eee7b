// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"fmt"
	"io"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/registration"
)

// Removal is the plan of csccm unregister, and what -o json and yaml write. Without an entry Name is "".
type Removal struct {
	SchemaVersion int    `json:"schemaVersion"`
	DryRun        bool   `json:"dryRun"`
	ClusterID     string `json:"clusterID"`
	Name          string `json:"name,omitempty"`
	EntryID       string `json:"entryID,omitempty"`
	VMs           int    `json:"vms"` // of the entry; they stay
	Done          bool   `json:"done"`
}

// Unregister deletes the cluster's entry, and no VM.
func Unregister(ctx context.Context, e *engine.Env, cs *cloud.Cloud) error {
	f, err := Read(ctx, e.Cluster, cs, e.Release)
	if err != nil {
		return err
	}
	r := &Removal{SchemaVersion: 1, DryRun: true, ClusterID: f.ClusterID}
	op := engine.Operation{
		Name: "unregister", Question: prompt.Question{Help: "CloudStack only displays the entry: no VM is changed."}, Plan: r, Show: r.write,
	}
	if own := f.Own(); own != nil {
		r.Name, r.EntryID, r.VMs = own.Name, own.ID, len(own.VMs)
		op.What = "delete entry " + own.Name + " from CloudStack's UI"
		op.Check = func(ctx context.Context) error {
			if f.KeptAs != "" {
				return &report.Error{
					What: fmt.Sprintf("nothing was changed: the controller would create the entry again (chart value registerCluster=%s)", f.KeptAs),
					Fix:  "run csccm upgrade --set registerCluster= first", Code: report.ExitCheckFailed,
				}
			}
			return Allowed(ctx, cs, []string{registration.UnregisterCommand})
		}
		op.Steps = []engine.Step{{Name: "entry in CloudStack's UI", Do: func(ctx context.Context, note engine.Note) error {
			r.DryRun = false
			e.Progress.Step("Entry %s", r.Name)
			err := engine.Shielded(ctx, func(ctx context.Context) error {
				_, err := registration.Unregister(ctx, cs.Client, f.Project, f.ClusterID)
				return err
			})
			if err != nil {
				return report.Remedied(err, "run the same command again")
			}
			r.Done = true
			note("deleted entry %s, id %s", r.Name, r.EntryID)
			e.Progress.Done("deleted")
			return nil
		}}}
	}
	return e.Run(ctx, op)
}

func (r *Removal) write(w io.Writer) error {
	if r.Name == "" {
		_, err := fmt.Fprintln(w, "CloudStack's UI has no entry that csccm made for this cluster: nothing to delete.")
		return err
	}
	_, err := fmt.Fprintf(w, "Delete entry %s (id %s, %s) from CloudStack's UI. No VM is changed.\n", r.Name, r.EntryID, plural.Count(r.VMs, "VM"))
	return err
}
