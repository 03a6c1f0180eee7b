// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/typo"
)

// source says how something is read.
type source struct {
	// needs are read before, and a failure of theirs is one of this source; tries are read before if they can be.
	needs, tries []decide.Source
	// read writes to fields of Facts that no other source writes to, and reads those of needs and tries.
	read func(ctx context.Context, r *reading, f *Facts) error
}

// reading is what a run has read so far.
type reading struct {
	*Env

	f         *Facts
	inventory *inventory.Inventory
	sources   map[decide.Source]source
	states    map[decide.Source]*state
	timeout   time.Duration // of one source
	slots     chan struct{} // bounds how many sources are read at a time
	project   string        // its id; "" for the account itself
	// systemPods are those of kube-system, where the controller is there.
	systemPods []corev1.Pod
	// allMembers: the members of every load balancer rule are read, however many calls that takes.
	allMembers bool
}

type state struct {
	once sync.Once
	done chan struct{} // closed when err and the fields of Facts are set
	err  error
}

// errEnded means that the run ended before a source was read.
var errEnded = errors.New("the run has ended")

func newReading(env *Env, sources map[decide.Source]source, timeout time.Duration) *reading {
	e := *env
	e.Clock = cmp.Or[clock.WithTicker](e.Clock, clock.RealClock{})
	f := &Facts{At: e.Clock.Now(), Setup: e.Setup}
	if e.Cluster != nil {
		f.Context, f.Server, f.User = e.Cluster.Context, e.Cluster.Server, e.Cluster.User
	}
	if e.CloudConfig != nil {
		f.Config = *e.CloudConfig
	}
	r := &reading{Env: &e, f: f, sources: sources, states: map[decide.Source]*state{}, timeout: timeout, slots: make(chan struct{}, cluster.AtOnce)}
	for s := range sources {
		r.states[s] = &state{done: make(chan struct{})}
	}
	switch {
	case e.CloudStack != nil:
		r.inventory = inventory.New(e.CloudStack, inventory.Options{Clock: e.Clock, ProjectID: f.Config.ProjectID, Zone: f.Config.Zone, NodeVMs: f.Config.NodeVMs})
	case f.NoCloud == "" && f.NoCloudErr == nil:
		f.NoCloud = fmt.Sprintf("no CloudStack credentials: give --cloud-config FILE, or make Secret %s/%s", e.Namespace, DefaultSecretName)
	}
	return r
}

// start begins to read sources that are not read yet. ctx is that of the whole run.
func (r *reading) start(ctx context.Context, sources ...decide.Source) {
	for _, s := range sources {
		st := r.states[s]
		st.once.Do(func() {
			go func() {
				defer close(st.done)
				if st.err = r.read(ctx, s); st.err != nil {
					r.f.Fail(s, st.err)
				}
			}()
		})
	}
}

// wait waits until sources are read. Its error names the source; that of a source that needs others names the one that failed.
func (r *reading) wait(ctx context.Context, sources ...decide.Source) (err error) {
	r.start(ctx, sources...)
	for _, s := range sources {
		<-r.states[s].done
		err = cmp.Or(err, r.states[s].err)
	}
	return err
}

func (r *reading) read(run context.Context, s decide.Source) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("csccm broke (%v): please report this", p)
		}
		if run.Err() != nil {
			err = errEnded // however little of it is missing
		}
		if _, inner := errors.AsType[*decide.UnreadError](err); err != nil && !inner {
			err = decide.Unreadable(string(s), err)
		}
	}()
	src := r.sources[s]
	r.start(run, src.tries...)
	if err := r.wait(run, src.needs...); err != nil {
		return err
	}
	_ = r.wait(run, src.tries...) // read without them
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	ctx, cancel := context.WithTimeout(run, r.timeout)
	defer cancel()
	if err = src.read(ctx, r, r.f); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no result within %s", r.timeout)
	}
	return err
}

// end waits until nothing is read any more, also for checks that were skipped.
func (r *reading) end() {
	for s, st := range r.states {
		st.once.Do(func() {
			r.f.Fail(s, errors.New("not asked for"))
			close(st.done)
		})
		<-st.done
	}
}

// fill replaces the placeholders of a remedy by names of the run.
func (r *reading) fill(remedy string, objects []Object) string {
	api := cmp.Or(strings.Replace(r.f.Config.APIURL, "http://", "https://", 1), "https://HOST/client/api")
	var nodes []string
	service := ""
	for _, o := range objects {
		if o.Kind == "Node" && !slices.Contains(nodes, o.Name) {
			nodes = append(nodes, o.Name)
		}
		if o.Kind == "Service" && service == "" {
			service = "-n " + o.Namespace + " " + o.Name
		}
	}
	return strings.NewReplacer(
		decide.WordNamespace, r.Namespace, decide.WordRelease, r.Release, decide.WordNodeNames, strings.Join(nodes, " "), decide.WordService, service, decide.WordAPI, api,
	).Replace(r.Style.Commands(remedy))
}

// nearest are the codes and groups that a mistyped one is closest to, by the letters to change.
func nearest(code string, catalogue []decide.Check) []string {
	var known []string
	for _, c := range catalogue {
		group, _, _ := strings.Cut(c.Code, "-")
		known = append(known, group, c.Code)
	}
	return typo.Nearest(code, known, math.MaxInt)
}
