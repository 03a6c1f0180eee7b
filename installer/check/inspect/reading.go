// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/inventory"
)

// source says how something is read.
type source struct {
	// needs are read before, and a failure of theirs is one of this source; tries are read before if they can be.
	needs, tries []check.Source
	// read writes to fields of Facts that no other source writes to, and reads those of needs and tries.
	read func(ctx context.Context, r *reading, f *check.Facts) error
}

// reading is what a run has read so far.
type reading struct {
	*Env

	f         *check.Facts
	inventory *inventory.Inventory
	once      map[check.Source]func() error // reads a source at the first call, and returns its error at each
	reads     sync.WaitGroup                // those that were started
	slots     chan struct{}                 // bounds how many sources are read at a time
	sel       check.Selection
	project   string // its id; "" for the account itself
}

// errEnded means that the run ended before a source was read.
var errEnded = errors.New("the run has ended")

// newReading prepares to read sources while ctx lasts, which is that of the whole run.
func newReading(ctx context.Context, env *Env, sources map[check.Source]source, sel check.Selection) *reading {
	e := *env
	e.Clock = cmp.Or[clock.WithTicker](e.Clock, clock.RealClock{})
	f := &check.Facts{At: e.Clock.Now(), Setup: e.Setup}
	f.Phase, sel.Timeout = sel.Phase, cmp.Or(sel.Timeout, 20*time.Second)
	if e.Cluster != nil {
		f.Context, f.Server, f.User = e.Cluster.Context, e.Cluster.Server, e.Cluster.User
	}
	if e.CloudConfig != nil {
		f.Config = *e.CloudConfig
	}
	r := &reading{Env: &e, f: f, once: map[check.Source]func() error{}, sel: sel, slots: make(chan struct{}, cluster.AtOnce)}
	for s, src := range sources {
		f.Fail(s, errors.New("not asked for"))
		r.once[s] = sync.OnceValue(func() error {
			err := r.read(ctx, s, src)
			f.Fail(s, err)
			return err
		})
	}
	switch {
	case e.CloudStack != nil:
		r.inventory = inventory.New(e.CloudStack, inventory.Options{Clock: e.Clock, ProjectID: f.Config.ProjectID, Zone: f.Config.Zone, NodeVMs: f.Config.NodeVMs})
	case f.NoCloud == "" && f.NoCloudErr == nil:
		f.NoCloud = fmt.Sprintf("no CloudStack credentials: give --cloud-config FILE, or make Secret %s/%s", e.Namespace, DefaultSecretName)
	}
	return r
}

// start begins to read sources that are not read yet.
func (r *reading) start(sources ...check.Source) {
	for _, s := range sources {
		r.reads.Go(func() { _ = r.once[s]() })
	}
}

// wait waits until sources are read. Its error names the source; that of a source that needs others names the one that
// failed.
func (r *reading) wait(sources ...check.Source) (err error) {
	r.start(sources...)
	for _, s := range sources {
		err = cmp.Or(err, r.once[s]())
	}
	return err
}

func (r *reading) read(run context.Context, s check.Source, src source) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("csccm broke (%v): please report this", p)
		}
		if run.Err() != nil {
			err = errEnded // however little of it is missing
		}
		if _, inner := errors.AsType[*check.UnreadError](err); err != nil && !inner {
			err = &check.UnreadError{Noun: string(s), Err: err}
		}
	}()
	r.start(src.tries...)
	if err := r.wait(src.needs...); err != nil {
		return err
	}
	_ = r.wait(src.tries...) // read without them
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	ctx, cancel := context.WithTimeout(run, r.sel.Timeout)
	defer cancel()
	if err = src.read(ctx, r, r.f); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no result within %s", r.sel.Timeout)
	}
	return err
}

// fill replaces the placeholders of a remedy by names of the run.
func (r *reading) fill(remedy string, objects []check.Object) string {
	api := cmp.Or(strings.Replace(r.f.Config.APIURL, "http://", "https://", 1), "https://HOST/client/api")
	var nodes []string
	words := []string{"https://HOST/client/api", api, "RELEASE", r.Release}
	for _, o := range objects {
		if o.Kind == "Node" && !slices.Contains(nodes, o.Name) {
			nodes = append(nodes, o.Name)
		}
		if o.Kind == "Service" { // the first
			words = append(words, "-n NAMESPACE NAME", "-n "+o.Namespace+" "+o.Name)
		}
	}
	words = append(words, "NODES", strings.Join(nodes, " "), "NAMESPACE", r.Namespace)
	return strings.NewReplacer(words...).Replace(r.Style.Commands(remedy))
}
