// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// probe runs the container's probes until the context ends: first the startup probe, then liveness and readiness in
// parallel.
func (w *worker) probe(ctx context.Context, p *child.Process) {
	c := w.container()
	alive := func(success bool) bool {
		if !success {
			p.Stop(w.grace())
		}
		return success
	}

	if c.StartupProbe != nil {
		started := false
		w.watchProbe(ctx, "Startup", c.StartupProbe, func(success bool) (more bool) {
			started = alive(success)
			return false
		})
		if !started {
			return
		}
		w.set(func(s *corev1.ContainerStatus) { s.Started, s.Ready = ptr.To(true), c.ReadinessProbe == nil })
	}

	both := sync.WaitGroup{}
	both.Go(func() { w.watchProbe(ctx, "Liveness", c.LivenessProbe, alive) })
	both.Go(func() {
		w.watchProbe(ctx, "Readiness", c.ReadinessProbe, func(success bool) (more bool) {
			w.mu.Lock()
			// A result that arrives after the process has ended must not count for the next process.
			changes := w.process == p && w.status.Ready != success
			w.mu.Unlock()
			if changes {
				w.set(func(s *corev1.ContainerStatus) { s.Ready = success })
			}
			return true
		})
	})

	both.Wait()
}

// grace returns the termination grace period.
func (w *worker) grace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.powerOff {
		return 0
	}
	seconds := ptr.Deref(or(w.pod.DeletionGracePeriodSeconds, w.pod.Spec.TerminationGracePeriodSeconds), 30)
	return time.Duration(seconds) * time.Second
}

// watchProbe runs a probe periodically and calls decide whenever a threshold is reached, until decide returns false.
// The probe may be nil.
func (w *worker) watchProbe(ctx context.Context, kind string, p *corev1.Probe, decide func(success bool) (more bool)) {
	if p == nil || !sleep(ctx, time.Duration(p.InitialDelaySeconds)*time.Second) {
		return
	}

	run, last := int32(0), false
	for {
		err := w.tryProbe(ctx, p)
		if ctx.Err() != nil {
			return
		}

		if err != nil {
			w.warn("Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
		}

		if success := err == nil; run == 0 || success != last {
			run, last = 1, success
		} else {
			run++
		}

		threshold := max(p.FailureThreshold, 1)
		if last {
			threshold = max(p.SuccessThreshold, 1)
		}

		if run >= threshold && !decide(last) {
			return
		}

		if !sleep(ctx, time.Duration(max(p.PeriodSeconds, 1))*time.Second) {
			return
		}
	}
}

// tryProbe runs a probe once. A Pod in the host network is probed on loopback, because its node's address is that of a
// VM, which does not exist on this machine.
func (w *worker) tryProbe(ctx context.Context, p *corev1.Probe) (err error) {
	defer must.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	host := w.podIP
	if w.latest().Spec.HostNetwork {
		host = "127.0.0.1"
	}

	must.Be(p.HTTPGet != nil, "process nodes support only httpGet probes")
	port := p.HTTPGet.Port.String()
	for _, named := range w.container().Ports {
		if named.Name == port {
			port = fmt.Sprint(named.ContainerPort)
		}
	}

	url := fmt.Sprintf("%s://%s/%s", strings.ToLower(string(p.HTTPGet.Scheme)), net.JoinHostPort(host, port),
		strings.TrimPrefix(p.HTTPGet.Path, "/"))
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	resp, err := probeClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	must.Get(io.Copy(io.Discard, io.LimitReader(resp.Body, 10<<10)))
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", resp.StatusCode)
	}

	return nil
}

// probeClient works like the kubelet's client: it keeps no connections and does not verify certificates.
var probeClient = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- probes check no certificates
}}
