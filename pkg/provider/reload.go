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
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	inUse    digest // of the files that the client uses
	refused  digest // of the files that were tried last and did not work
	retryAt  time.Time
	pause    time.Duration

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
	r.inUse, _ = r.digestOf(configText, p.config)
	return r
}

// FollowConfig applies changes of the cloud-config and the CA files until the context ends. Without Options.ConfigFile
// it does nothing.
func (p *Provider) FollowConfig(ctx context.Context) {
	if p.options.ConfigFile == "" || p.reloader == nil {
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
		r.settle(now)
	case now == r.refused && r.provider.options.Clock.Now().Before(r.retryAt):
	default:
		if err := r.try(ctx, cfg); err != nil {
			r.fail(now, reloadRefused, err)
			return
		}
		r.results.WithLabelValues(reloadOK).Inc()
		r.settle(now)
		klog.InfoS("Changed credentials or CA certificates are in use", "endpoint", r.provider.client.Endpoint())
	}
}

func (r *reloader) settle(now digest) {
	r.inUse, r.refused, r.pause = now, digest{}, 0
	r.pending.Set(0)
}

// fail logs and counts, once for each attempt, that a changed configuration does not work and the old one stays in use.
func (r *reloader) fail(now digest, result string, err error) {
	clock := r.provider.options.Clock
	if now == r.refused && clock.Now().Before(r.retryAt) {
		return
	}
	if now != r.refused {
		r.pause = 0
	}
	r.refused = now
	r.pause = min(max(2*r.pause, reloadPeriod), reloadLastPause)
	r.retryAt = clock.Now().Add(r.pause)
	r.pending.Set(1)
	r.results.WithLabelValues(result).Inc()
	klog.ErrorS(err, "Changed credentials or CA certificates do not work; those in use are kept", "remedy",
		selftest.Remedy(err), "retryIn", r.pause)
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
	if err != nil {
		trial.CloseIdleConnections()
		return err
	}

	if last := p.inventory.LastVMs(); last != nil && last.Len() > 0 {
		common := 0
		for i := range vms {
			if _, ok := last.ByID(vms[i].ID); ok {
				common++
			}
		}
		if common == 0 {
			trial.CloseIdleConnections()
			return &selftest.Problem{
				Err: fmt.Errorf("the new key sees none of the %d VMs that are known in %s (it sees %d others): is it "+
					"a key of another account or another CloudStack?",
					last.Len(), p.inventory.Scope(), len(vms)),
				Remedy: "use a key of the account that owns the VMs; for a move to another one, restart the controller",
			}
		}
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
	h := sha256.New()
	var errs []error
	add := func(b []byte) {
		fmt.Fprintf(h, "%d:", len(b)) //nolint:errcheck // a hash takes everything
		h.Write(b)
	}

	add(configText)
	for _, name := range []string{cfg.CAFile, r.provider.config.CABundle} {
		if name == "" {
			add(nil)
			continue
		}
		b, err := os.ReadFile(name) // #nosec G703 -- the operator's own configuration names it
		if err != nil {
			errs = append(errs, fmt.Errorf("CA certificates: %w", err))
		}
		add(b)
	}

	return digest(h.Sum(nil)), errors.Join(errs...)
}
