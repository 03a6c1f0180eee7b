// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/installer/engine/journal"
)

// Command is the name of this command's runs in the journal.
const Command = "install"

// recorded is do with an entry in the journal before and after it. The journal
// is begun with the first of them: until then nothing was changed.
func (in *Installer) recorded(name string, do func(context.Context) error) step {
	return step{name, func(ctx context.Context) error {
		if err := in.openJournal(); err != nil {
			return err
		}
		if err := in.journal.Begin(ctx, name); err != nil {
			return err
		}
		in.did = nil
		err := do(ctx)
		in.journal.Finish(ctx, name, err, in.did...)
		return err
	}}
}

func (in *Installer) openJournal() error {
	if in.journal != nil {
		return nil
	}
	j, err := journal.Open(journal.Options{
		Path: in.Options.Journal, Kube: in.Cluster.Kube, Namespace: in.Cluster.Namespace, Clock: in.Clock,
		Command: Command, Scrub: in.scrub, Warn: in.Progress.Warn,
	})
	if err != nil {
		return err
	}
	in.journal = j
	return nil
}

// note is a detail of the step in progress for the journal. It holds no secret.
func (in *Installer) note(format string, args ...any) {
	in.did = append(in.did, fmt.Sprintf(format, args...))
}
