// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// sample holds the values of the controller's metrics at one time.
type sample struct {
	goroutines, heap, resident float64
}

// gauges holds the samples of one controller process.
type gauges struct {
	mu      sync.Mutex
	samples []sample
	lives   int
}

const (
	samplePeriod = time.Second
	fewSamples   = 12 // the minimum for a comparison
	mib          = 1 << 20
)

// restarted drops the samples, because those of different processes cannot be compared.
func (g *gauges) restarted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.samples, g.lives = nil, g.lives+1
}

// fill reads the metrics until there are enough samples: on a busy machine each read takes long.
func (g *gauges) fill(ctx context.Context, host string) {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	enough := func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.samples) >= fewSamples }
	g.until(ctx, host, enough)
}

// run reads the metrics until the context ends.
func (g *gauges) run(ctx context.Context, host string) {
	g.until(ctx, host, func() bool { return false })
}

func (g *gauges) until(ctx context.Context, host string, enough func() bool) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- the controller's self-signed certificate, on loopback
	}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(samplePeriod)
	defer tick.Stop()
	for !enough() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s, err := read(ctx, client, host); err == nil { // an error is expected while the controller is killed and restarted
				g.mu.Lock()
				g.samples = append(g.samples, s)
				g.mu.Unlock()
			}
		}
	}
}

func read(ctx context.Context, client *http.Client, host string) (s sample, err error) {
	defer must.Return(&err)
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:%d/metrics", host, metricsPort), nil))
	resp, err := client.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return s, errors.New(resp.Status)
	}
	wanted := map[string]*float64{"go_goroutines": &s.goroutines, "go_memstats_heap_inuse_bytes": &s.heap, "process_resident_memory_bytes": &s.resident}
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		name, value, _ := strings.Cut(in.Text(), " ")
		if to := wanted[name]; to != nil {
			*to = must.Get(strconv.ParseFloat(value, 64))
		}
	}
	return s, in.Err()
}

// ends returns the medians of the second and the last quarter of the samples. The first quarter is the start-up.
func (g *gauges) ends() (early, late sample, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.samples)
	if n < fewSamples {
		return early, late, false
	}
	return median(g.samples[n/4 : n/2]), median(g.samples[n-n/4:]), true
}

func median(s []sample) sample {
	of := func(get func(sample) float64) float64 {
		var v []float64
		for _, x := range s {
			v = append(v, get(x))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return sample{
		goroutines: of(func(x sample) float64 { return x.goroutines }), heap: of(func(x sample) float64 { return x.heap }),
		resident: of(func(x sample) float64 { return x.resident }),
	}
}

// err returns an error that names the metrics that have grown.
func (g *gauges) err() error {
	early, late, ok := g.ends()
	if !ok {
		return fmt.Errorf("fewer than %d samples of the controller's metrics: growth cannot be judged", fewSamples)
	}
	var errs []error
	for _, c := range []struct {
		what        string
		early, late float64
		slack       float64
	}{
		{"goroutines", early.goroutines, late.goroutines, 50}, {"heap", early.heap, late.heap, 16 * mib}, {"resident memory", early.resident, late.resident, 32 * mib},
	} {
		if c.late > c.early*1.25+c.slack {
			errs = append(errs, fmt.Errorf("the controller grows: %s from %.0f to %.0f", c.what, c.early, c.late))
		}
	}
	return errors.Join(errs...)
}
