// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect runs the checks of package check: it reads the facts that they need, each source once, and returns a
// report.
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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// Env is the environment of the checks. In Setup, the caller sets only what cannot be read from the other fields.
type Env struct {
	check.Setup

	Cluster *cluster.Cluster
	// CloudStack is nil without credentials; NoCloud or NoCloudErr is then the reason.
	CloudStack *cloudapi.Client
	// CloudConfig is the configuration of CloudStack; nil if CloudStack is.
	CloudConfig *cloudstack.Config
	// Style adds flags to the commands in remedies, so that they work on this cluster and release.
	Style report.Style
	// ProbePod allows NODE-001 to run a Pod on nodes whose kubelet does not answer; nil forbids it. This Pod is the
	// only change that a check makes.
	ProbePod *kubelet.ProbeOptions
	// DialAPI connects to the API server of a CKS cluster; nil uses the network.
	DialAPI ckscheck.Dial
	// Clock is the clock; nil means the real one.
	Clock clock.WithTicker
}

// DefaultSecretName is the Secret with the cloud-config; all providers for CloudStack, and CKS, use this name.
const DefaultSecretName = "cloudstack-secret" //nolint:gosec // a name

// PhaseOf returns PhasePreflight if there is no sign that the controller is installed: no Helm record, no workload of
// the release (GitOps and csccm template create no Helm record), and no Secret with its credentials. If another
// provider runs, the Secret is that provider's. If something cannot be read, the phase is PhaseInstalled, and the
// checks report why.
func PhaseOf(ctx context.Context, c *cluster.Cluster, release string) check.Phase {
	env := &Env{Cluster: c, Setup: check.Setup{Namespace: c.Namespace, Release: release}}
	r := newReading(ctx, env, allSources(), check.Selection{})
	if err := r.wait(check.Releases, check.Controllers); err != nil || len(r.f.Records)+len(r.f.Ours()) > 0 {
		return check.PhaseInstalled
	}
	_, err := c.Kube.CoreV1().Secrets(c.Namespace).Get(ctx, DefaultSecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || len(r.f.Others()) > 0 {
		return check.PhasePreflight
	}
	return check.PhaseInstalled
}

// Connect returns the environment of the checks, and a function that closes it. It uses the credentials of a
// cloud-config file or, without one, of the cluster's Secret. Without credentials the checks of CloudStack are skipped
// before an installation, and fail after it.
func Connect(
	ctx context.Context, c *cluster.Cluster, style report.Style, release, cloudConfig string, phase check.Phase,
) (*Env, func()) {
	env := &Env{Cluster: c, Style: style, Setup: check.Setup{Namespace: c.Namespace, Release: release}}
	if c.Silent != nil && cloudConfig == "" {
		env.NoCloud = "the credentials could not be read: " + c.Silent.Error()
		return env, func() {}
	}

	cs, err := access.Of(ctx, c, release, cloudConfig)
	if err == nil {
		env.CloudStack, env.CloudConfig = cs.Client, cs.Config
		if cs.Secret != nil {
			env.Secret = cs.Secret.Config
		}
		return env, cs.Close
	}

	var unreachable *cluster.Error
	switch {
	case errors.As(err, &unreachable):
		env.NoCloud = "the credentials could not be read: " + err.Error()
	case errors.Is(err, access.ErrNoCredentials) && phase != check.PhaseInstalled:
		env.NoCloud = err.Error()
	default:
		env.NoCloudErr = err
	}

	return env, func() {}
}

// Run reads all sources that the selected checks need, at the same time, and runs the checks in the order of the
// catalogue. progress, if not nil, is called with each result. If ctx ends, checks whose facts have not been read are
// unknown. The caller may change the facts.
func Run(
	ctx context.Context, env *Env, sel check.Selection, progress func(check.Result),
) (check.Report, *check.Facts) {
	return newReading(ctx, env, allSources(), sel).run(ctx, check.All(), progress)
}

func (r *reading) run(
	ctx context.Context, catalogue []check.Check, progress func(check.Result),
) (check.Report, *check.Facts) {
	checks := r.sel.Plan(catalogue)
	for _, c := range checks {
		r.start(c.Reads...)
		r.start(c.Tries...)
	}

	results := []check.Result{}
	byCode := map[string]check.Result{}
	for _, c := range checks {
		result := r.result(ctx, &c, byCode).Without(r.f.Config.APIKey, r.f.Config.SecretKey)
		byCode[c.Code] = result
		if !r.sel.Chooses(&c) && result.Outcome != check.Failed && result.Outcome != check.Unknown {
			// A selected check needs this one. This one is reported only if it is the reason why the selected check was
			// skipped.
			continue
		}
		results = append(results, result)
		if progress != nil {
			progress(result)
		}
	}

	r.reads.Wait() // also for sources that only skipped checks needed
	return check.NewReport(r.f, r.Clock.Since(r.f.At), results), r.f
}

// result runs a check, unless one that it needs did not pass.
func (r *reading) result(ctx context.Context, c *check.Check, before map[string]check.Result) check.Result {
	for _, code := range c.Needs {
		needed, ran := before[code]
		switch o := needed.Outcome; {
		case !ran || o == check.OK || o == check.Warning:
		case needed.Unfinished:
			return check.ResultOf(c, stopped(ctx), 0)
		default:
			out := check.ResultOf(c, check.Skipf("needs %s (%s)", code, o), 0)
			out.Needs = cmp.Or(needed.Needs, code)
			return out
		}
	}

	began := r.Clock.Now()
	out := check.ResultOf(c, r.judge(ctx, c), r.Clock.Since(began))
	out.Remedy = r.fill(out.Remedy, out.Objects)
	return out
}

// judge waits for the facts of a check and calls its Judge. A panic becomes a finding; it does not end csccm.
func (r *reading) judge(ctx context.Context, c *check.Check) (f check.Finding) {
	defer func() {
		if p := recover(); p != nil {
			f = check.Unknownf("the check itself failed (%v): please report this", p)
		}
	}()

	err, tried := r.wait(c.Reads...), r.wait(c.Tries...)
	switch {
	case errors.Is(err, errEnded) || errors.Is(tried, errEnded):
		return stopped(ctx)
	case err != nil:
		return check.Unread(err)
	}
	return c.Judge(r.f)
}

// stopped returns the finding of a check if the run ended before it.
func stopped(ctx context.Context) check.Finding {
	f := check.Unknownf("not finished: interrupted")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = check.Unknownf("not finished: the time for the whole run is over")
	}
	f.Unfinished = true
	return f
}

// source is how a source is read.
type source struct {
	// needs are sources that are read first; if one fails, so does this source. tries are also read first, but may
	// fail.
	needs, tries []check.Source
	// read writes fields of Facts that no other source writes, and reads only those of needs and tries.
	read func(ctx context.Context, r *reading, f *check.Facts) error
}

// reading is the state of a run.
type reading struct {
	*Env

	f         *check.Facts
	inventory *inventory.Inventory
	once      map[check.Source]func() error // reads a source at the first call; each call returns its error
	reads     sync.WaitGroup                // the reads that were started
	slots     chan struct{}                 // limits how many sources are read at the same time
	sel       check.Selection
}

// errEnded means that the run ended before a source was read.
var errEnded = errors.New("the run has ended")

// newReading prepares to read sources. ctx is that of the whole run.
func newReading(ctx context.Context, env *Env, sources map[check.Source]source, sel check.Selection) *reading {
	e := *env
	e.Clock = cmp.Or[clock.WithTicker](e.Clock, clock.RealClock{})
	if e.Cluster != nil {
		e.Clock = e.Cluster.Clock(e.Clock)
	}

	f := &check.Facts{At: e.Clock.Now(), MachineAhead: cluster.Ahead(e.Clock), Setup: e.Setup}
	f.Phase, sel.Timeout = sel.Phase, cmp.Or(sel.Timeout, 20*time.Second)
	if e.Cluster != nil {
		f.Context, f.Server, f.User = e.Cluster.Context, e.Cluster.Server, e.Cluster.User
	}
	if e.CloudConfig != nil {
		f.Config = *e.CloudConfig
	}

	r := &reading{
		Env:   &e,
		f:     f,
		once:  map[check.Source]func() error{},
		sel:   sel,
		slots: make(chan struct{}, cluster.AtOnce),
	}

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
		r.inventory = inventory.New(e.CloudStack,
			inventory.Options{
				Clock:     e.Clock,
				ProjectID: f.Config.ProjectID,
				Zone:      f.Config.Zone,
				NodeVMs:   f.Config.NodeVMs,
			})
	case f.NoCloud == "" && f.NoCloudErr == nil:
		f.NoCloud = fmt.Sprintf("no CloudStack credentials: give --cloud-config FILE, or make Secret %s/%s",
			e.Namespace, DefaultSecretName)
	}

	return r
}

// start starts reading the sources that have not been read.
func (r *reading) start(sources ...check.Source) {
	for _, s := range sources {
		r.reads.Go(func() { _ = r.once[s]() })
	}
}

// wait waits until the sources are read. Its error has the name of the source that failed, which may be one that
// another source needs.
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
			err = fmt.Errorf("csccm failed (%v): please report this", p)
		}
		if run.Err() != nil {
			err = errEnded // facts of a cancelled run may be incomplete
		}
		if _, inner := errors.AsType[*check.UnreadError](err); err != nil && !inner {
			err = &check.UnreadError{Noun: string(s), Err: err}
		}
	}()

	r.start(src.tries...)
	if err := r.wait(src.needs...); err != nil {
		return err
	}

	_ = r.wait(src.tries...) // ignore errors: tries may fail

	r.slots <- struct{}{}
	defer func() { <-r.slots }()

	ctx, cancel := context.WithTimeout(run, r.sel.Timeout)
	defer cancel()
	if err = src.read(ctx, r, r.f); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no result within %s", r.sel.Timeout)
	}

	return err
}

// fill replaces the placeholders in a remedy by names of the run.
func (r *reading) fill(remedy string, objects []check.Object) string {
	api := cmp.Or(strings.Replace(r.f.Config.APIURL, "http://", "https://", 1), "https://HOST/client/api")
	var nodes []string
	words := []string{"https://HOST/client/api", api, "RELEASE", r.Release}
	for _, o := range objects {
		if o.Kind == "Node" && !slices.Contains(nodes, o.Name) {
			nodes = append(nodes, o.Name)
		}
		if o.Kind == "Service" { // NewReplacer uses the first
			words = append(words, "-n NAMESPACE NAME", "-n "+o.Namespace+" "+o.Name)
		}
	}
	words = append(words, "NODES", strings.Join(nodes, " "), "NAMESPACE", r.Namespace)
	return strings.NewReplacer(words...).Replace(r.Style.Commands(remedy))
}
