// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/selftest"
)

const (
	// reloadPeriod is how often the files are read. The kubelet takes up to a minute to update a mounted Secret, so
	// polling is fast enough; and it replaces the whole directory, which is awkward to watch.
	reloadPeriod = 10 * time.Second
	// reloadLastPause is the longest pause between two attempts with a configuration that does not work.
	reloadLastPause = time.Minute
	reloadTimeout   = 2 * time.Minute
)

// reloader applies changed credentials and CA certificates to the running client. A changed configuration is tested
// before it is used; until it works, the old one stays in use. Replicas that do not lead run it too: they must not
// become leader with a key that is no longer valid.
type reloader struct {
	provider *Provider
	inUse    digest               // of the files that the client uses
	failed   *flowcontrol.Backoff // by digest of files that do not work

	results *prometheus.CounterVec
	pending prometheus.Gauge
}

type digest [sha256.Size]byte

// Results of an attempt, as label values of the metric.
const (
	reloadOK      = "ok"
	reloadInvalid = "invalid" // the file cannot be read
	reloadRefused = "refused" // the test against CloudStack failed
)

func newReloader(p *Provider, configText []byte) *reloader {
	r := &reloader{
		provider: p,
		failed:   flowcontrol.NewBackOff(reloadPeriod, reloadLastPause),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloudstack_config_reloads_total",
			Help: "Number of times changed credentials or CA certificates were tried, by result: ok, refused (kept " +
				"the old ones), invalid (not readable).",
		}, []string{"result"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cloudstack_config_reload_pending",
			Help: "1 while the cloud-config or a CA file differs from what is in use, because it does not work.",
		}),
	}
	for _, result := range []string{reloadOK, reloadInvalid, reloadRefused} {
		r.results.WithLabelValues(result)
	}
	r.failed.Clock = p.options.Clock
	r.inUse, _ = r.digestOf(configText, p.config)
	return r
}

// FollowConfig applies changes of the cloud-config and the CA files until the context ends. Without Options.ConfigFile
// it does nothing.
func (p *Provider) FollowConfig(ctx context.Context) {
	if p.options.ConfigFile == "" {
		return
	}
	if p.options.RegisterMetrics != nil {
		p.options.RegisterMetrics(p.reloader.results, p.reloader.pending)
	}
	ticker := p.options.Clock.NewTicker(reloadPeriod)
	defer ticker.Stop()
	for {
		p.reloader.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// look reads the cloud-config and the CA files, and applies them if they differ from those in use.
func (r *reloader) look(ctx context.Context) {
	text, err := os.ReadFile(r.provider.options.ConfigFile)
	if err != nil {
		r.fail(digest{}, reloadInvalid, fmt.Errorf("cloud-config: %w", err))
		return
	}

	cfg, parseErr := cloudconfig.Parse(bytes.NewReader(text))
	if parseErr != nil {
		cfg = r.provider.config
	}

	now, err := r.digestOf(text, cfg)
	switch err := cmp.Or(parseErr, err); {
	case err != nil:
		r.fail(now, reloadInvalid, err)
	case now == r.inUse:
		r.pending.Set(0)
	case r.waits(now):
	default:
		if err := r.try(ctx, cfg); err != nil {
			r.fail(now, reloadRefused, err)
			return
		}
		r.results.WithLabelValues(reloadOK).Inc()
		r.pending.Set(0)
		r.inUse = now
		klog.InfoS("Changed credentials or CA certificates are in use", "endpoint", r.provider.client.Endpoint())
	}
}

// waits reports whether files that did not work are not to be tried again yet.
func (r *reloader) waits(now digest) bool {
	return r.failed.IsInBackOffSinceUpdate(string(now[:]), r.failed.Clock.Now())
}

// fail logs and counts, once for each attempt, that a changed configuration does not work and the old one stays in use.
func (r *reloader) fail(now digest, result string, err error) {
	if r.waits(now) {
		return
	}
	r.failed.Next(string(now[:]), r.failed.Clock.Now())
	r.pending.Set(1)
	r.results.WithLabelValues(result).Inc()
	klog.ErrorS(err, "Changed credentials or CA certificates do not work; those in use are kept", "remedy",
		selftest.Remedy(err), "retryIn", r.failed.Get(string(now[:])))
}

// try makes a client with the new configuration and reads with it what the controller depends on. Only if that
// succeeds, the controller's own client adopts the new configuration.
func (r *reloader) try(ctx context.Context, cfg *cloudstack.Config) error {
	p := r.provider
	cfg.CABundle = p.config.CABundle
	trial, err := cloudstack.NewClient(cfg, p.clientOptions...)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	project, err := p.inventory.ProjectID(ctx)
	if err != nil {
		project = p.config.ProjectID // a name that the old key can no longer resolve
	}

	vms, err := trial.ListVirtualMachines(ctx, cloudstack.VMQuery{ProjectID: project})
	last := p.inventory.LastVMs()
	known := func(vm cloudstack.VirtualMachine) bool {
		_, ok := last.ByID(vm.ID)
		return ok
	}
	if err == nil &&
		last != nil &&
		last.Len() > 0 &&
		!slices.ContainsFunc(vms, known) {
		err = &selftest.Problem{
			Err: fmt.Errorf("the new key sees none of the %d VMs that are known in %s (it sees %d others): is it "+
				"a key of another account or another CloudStack?",
				last.Len(), p.inventory.Scope(), len(vms)),
			Remedy: "use a key of the account that owns the VMs; to move to another account, restart the " +
				"controller",
		}
	}
	if err != nil {
		trial.CloseIdleConnections()
		return err
	}

	p.client.Adopt(trial)
	p.use(cfg)
	for _, name := range p.State().Waits {
		klog.InfoS("A changed value of the cloud-config takes effect when the controller restarts", "key", name)
	}

	p.inventory.Reset()
	if p.services != nil {
		p.services.Retry()
	}

	return nil
}

// digestOf returns a digest of everything that a client is made from, so that no secret has to be kept for the
// comparison.
func (r *reloader) digestOf(configText []byte, cfg *cloudstack.Config) (digest, error) {
	texts := [][]byte{configText}
	var errs []error
	for _, name := range []string{cfg.CAFile, r.provider.config.CABundle} {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name) // #nosec G703 -- the operator's own configuration names it
		if err != nil {
			errs = append(errs, fmt.Errorf("CA certificates: %w", err))
		}
		texts = append(texts, text)
	}

	return sha256.Sum256(fmt.Appendf(nil, "%q", texts)), errors.Join(errs...)
}
