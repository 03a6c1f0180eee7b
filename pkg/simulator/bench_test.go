// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// The table of all: go test -bench . -run '^$' ./pkg/simulator

// bigWorld has 5,000 VMs, 1,000 addresses and 10,000 rules.
func bigWorld() *World {
	w := ExampleWorld()
	w.Zones[0].PublicRanges = []string{"10.200.0.1-10.200.8.0"}
	w.Accounts[1].Limits = map[string]int64{"publicIPs": -1}
	w.Networks[0].CIDR, w.Networks[0].SourceNAT = "10.64.0.0/16", ""
	w.VirtualMachines, w.PublicIPs = nil, nil
	for i := range 5000 {
		w.VirtualMachines = append(w.VirtualMachines, VirtualMachine{
			Name: fmt.Sprintf("node-%d", i), Account: "k8s", NICs: []NIC{{Network: "k8s-net", IP: fmt.Sprintf("10.64.%d.%d", 1+i/250, 1+i%250)}},
		})
	}
	for i := range 1000 {
		ip := PublicIP{Address: fmt.Sprintf("10.200.%d.%d", (i+1)/256, (i+1)%256), Network: "k8s-net"}
		for p := range 10 {
			ip.LoadBalancerRules = append(ip.LoadBalancerRules, LoadBalancerRule{
				Name: fmt.Sprintf("lb-%d-tcp-%d", i, p), PublicPort: 80 + p, PrivatePort: 30000 + p, Protocol: "tcp", Members: []string{"node-1", "node-2", "node-3"},
			})
		}
		w.PublicIPs = append(w.PublicIPs, ip)
	}
	return w
}

// bigSimulator is shared by the benchmarks that only read.
var bigSimulator = sync.OnceValues(func() (*Simulator, error) {
	return New(Options{World: bigWorld(), Clock: clock.RealClock{}})
})

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// signedQuery is the query of a signed call.
func signedQuery(sim *Simulator, command string, pairs ...string) string {
	key, secret, _ := sim.Keys(owner)
	q := url.Values{"command": {command}, "response": {"json"}, "apikey": {key}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	q.Set("signature", wire.Sign(secret, toParams(q)))
	return q.Encode()
}

// send answers a call without a network; query is that of signedQuery.
func send(b *testing.B, sim *Simulator, query string) string {
	b.Helper()
	rec := httptest.NewRecorder()
	sim.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/client/api?"+query, nil))
	if rec.Code != http.StatusOK {
		b.Fatal(rec.Body.String())
	}
	return rec.Body.String()
}

func newBig(b *testing.B, latency LatencyProfile) *Simulator {
	b.Helper()
	sim, err := New(Options{World: bigWorld(), Clock: clock.RealClock{}, Latency: latency})
	if err != nil {
		b.Fatal(err)
	}
	return sim
}

// BenchmarkMemory is the live heap of the big world with everything that the package holds.
func BenchmarkMemory(b *testing.B) {
	before := heap()
	var sim *Simulator
	for b.Loop() {
		sim = newBig(b, LatencyProfile{})
	}
	b.ReportMetric(heap()-before, "MiB")
	runtime.KeepAlive(sim)
}

// BenchmarkMemoryFull is the live heap after a long run: a full ledger, a full log of events and 10,000 jobs that are not purged yet.
func BenchmarkMemoryFull(b *testing.B) {
	before := heap()
	sim := newBig(b, LatencyProfile{})
	for b.Loop() {
		for i := range 10_000 {
			send(b, sim, signedQuery(sim, "rebootVirtualMachine", "id", sim.st.VMs.Rows[i%5000].UUID))
		}
		for i := range ledgerLimit {
			id := sim.st.IPs.Rows[i%1000].UUID
			send(b, sim, signedQuery(sim, "listPublicIpAddresses", "id", id, "listall", "true", "page", "1", "pagesize", "500"))
		}
	}
	b.ReportMetric(heap()-before, "MiB")
	runtime.KeepAlive(sim)
}

// BenchmarkCalls answers one call after the other at full size, without a network.
func BenchmarkCalls(b *testing.B) {
	sim, err := bigSimulator()
	if err != nil {
		b.Fatal(err)
	}
	for _, tc := range []struct {
		name, command string
		args          []string
	}{
		{"listVirtualMachines/500", "listVirtualMachines", []string{"page", "3", "pagesize", "500"}},
		{"listVirtualMachines/nics", "listVirtualMachines", []string{"page", "3", "pagesize", "500", "details", "nics,servoff"}},
		{"listVirtualMachines/name", "listVirtualMachines", []string{"name", "node-4711"}},
		{"listPublicIpAddresses/500", "listPublicIpAddresses", []string{"page", "1", "pagesize", "500"}},
		{"listLoadBalancerRules/keyword", "listLoadBalancerRules", []string{"page", "1", "pagesize", "500", "keyword", "lb-7"}},
		{"listFirewallRules", "listFirewallRules", nil},
		{"listTags", "listTags", nil},
		{"listZones", "listZones", nil},
	} {
		query := signedQuery(sim, tc.command, tc.args...)
		b.Run(tc.name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(send(b, sim, query))
			}
			b.ReportMetric(float64(size)/1024, "KiB/answer")
		})
	}
}

// BenchmarkHTTP is a simple call from several clients over loopback; clients and server share the cores.
func BenchmarkHTTP(b *testing.B) {
	sim, err := bigSimulator()
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(sim.Handler())
	defer srv.Close()
	u := srv.URL + "/client/api?" + signedQuery(sim, "listZones")
	benchClients(b, func(c *http.Client) error { return fetch(c, u) })
}

// BenchmarkHTTPPolls is queryAsyncJobResult of a finished job, while thousands of others wait.
func BenchmarkHTTPPolls(b *testing.B) {
	sim := newBig(b, LatencyProfile{Job: time.Hour})
	srv := httptest.NewServer(sim.Handler())
	defer srv.Close()
	h := &http.Client{}
	var job string
	for _, v := range sim.st.VMs.Rows {
		if _, after, ok := strings.Cut(send(b, sim, signedQuery(sim, "stopVirtualMachine", "id", v.UUID)), `"jobid":"`); ok {
			job, _, _ = strings.Cut(after, `"`)
		}
	}
	if job == "" {
		b.Fatal("no job was started")
	}
	if err := fetch(h, srv.URL+"/client/api?"+signedQuery(sim, "listVirtualMachines", "page", "1", "pagesize", "500")); err != nil {
		b.Fatal(err)
	}
	u := srv.URL + "/client/api?" + signedQuery(sim, "queryAsyncJobResult", "jobid", job)
	benchClients(b, func(c *http.Client) error { return fetch(c, u) })
}

func benchClients(b *testing.B, call func(c *http.Client) error) {
	b.Helper()
	b.SetParallelism(8)
	b.ReportAllocs()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(c); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	c.CloseIdleConnections()
}

func fetch(c *http.Client, u string) error {
	resp, err := c.Get(u)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// BenchmarkLifeCycle makes an address with a rule and a member, and releases it, at full size.
func BenchmarkLifeCycle(b *testing.B) {
	sim := newBig(b, LatencyProfile{})
	net := sim.st.Networks.Rows[0].UUID
	call := func(command string, args ...string) string {
		_, after, _ := strings.Cut(send(b, sim, signedQuery(sim, command, args...)), `"id":"`)
		id, _, _ := strings.Cut(after, `"`)
		return id
	}
	for b.Loop() {
		ip := call("associateIpAddress", "networkid", net)
		rule := call("createLoadBalancerRule", "publicipid", ip, "name", "bench", "algorithm", "roundrobin", "publicport", "80", "privateport", "80", "protocol", "tcp")
		call("assignToLoadBalancerRule", "id", rule, "virtualmachineids", sim.st.VMs.Rows[7].UUID)
		call("disassociateIpAddress", "id", ip)
	}
	b.ReportMetric(4*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkStart is the time to a server that answers.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		if _, err := New(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
