// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"testing"

	"k8s.io/utils/clock"
)

// bigWorld has 5,000 VMs, 1,000 addresses and 10,000 rules.
func bigWorld(b *testing.B) *Simulator {
	b.Helper()
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
			ip.LoadBalancerRules = append(ip.LoadBalancerRules, LoadBalancerRule{Name: fmt.Sprintf("lb-%d-tcp-%d", i, p), PublicPort: 80 + p, PrivatePort: 30000 + p, Protocol: "tcp"})
		}
		w.PublicIPs = append(w.PublicIPs, ip)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sim, err := New(Options{World: w, Clock: clock.RealClock{}})
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc)/(1<<20), "MiB")
	return sim
}

// serveOne answers a signed GET without a network.
func serveOne(b *testing.B, sim *Simulator, command string, pairs ...string) int {
	b.Helper()
	key, secret, _ := sim.Keys(owner)
	q := url.Values{"command": {command}, "response": {"json"}, "apikey": {key}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	q.Set("signature", sign(secret, toParams(q)))
	rec := httptest.NewRecorder()
	sim.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/client/api?"+q.Encode(), nil))
	if rec.Code != http.StatusOK {
		b.Fatal(rec.Body.String())
	}
	return rec.Body.Len()
}

func BenchmarkListVirtualMachines5000(b *testing.B) {
	sim := bigWorld(b)
	for b.Loop() {
		serveOne(b, sim, "listVirtualMachines", "page", "3", "pagesize", "500")
	}
}

func BenchmarkListVirtualMachinesNics5000(b *testing.B) {
	sim := bigWorld(b)
	for b.Loop() {
		serveOne(b, sim, "listVirtualMachines", "page", "3", "pagesize", "500", "details", "nics,servoff")
	}
}

func BenchmarkListLoadBalancerRules10000(b *testing.B) {
	sim := bigWorld(b)
	for b.Loop() {
		serveOne(b, sim, "listLoadBalancerRules", "page", "1", "pagesize", "500", "keyword", "lb-7")
	}
}

// BenchmarkSimpleCalls is a small call from several clients over HTTP.
func BenchmarkSimpleCalls(b *testing.B) {
	sim, err := New(Options{World: ExampleWorld(), Clock: clock.RealClock{}})
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			serveOne(b, sim, "listZones")
		}
	})
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		if _, err := New(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
