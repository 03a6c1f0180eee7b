// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/testenv/cases"
)

func TestStickinessOptionsAreBounded(t *testing.T) {
	cases.Run(t, "testdata/stickiness.yaml", func(t *testing.T, method string, c struct{ Accepted, Refused []string }) {
		for _, options := range append(c.Accepted, c.Refused...) {
			_, err := Parse(service(map[string]string{StickinessMethod: method, StickinessOptions: options}))
			assert.Equal(t, slices.Contains(c.Accepted, options), err == nil, "%q: %v", options, err)
		}
	})
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value string
		want  bool
	}{
		{"k8s-net", true},
		{"Netz für Süd (1) & more", true},
		{strings.Repeat("ü", 255), true},
		{strings.Repeat("ü", 256), false},
		{"a\x00b", false},
		{"a\nb", false},
		{"a\u0085b", false},
		{"a\U0001F600", false},
		{"a\xffb", false},
	} {
		for _, name := range []string{Network, Project, Zone} {
			_, err := Parse(service(map[string]string{name: tc.value}))
			assert.Equal(t, tc.want, err == nil, "%s: %q: %v", name, tc.value, err)
		}
	}

	_, err := Parse(service(map[string]string{SourceCIDRs: strings.Repeat("10.0.0.0/8,", 2000) + "10.0.0.0/8"}))
	require.ErrorContains(t, err, "at most 16384 bytes")
	assert.Less(t, len(err.Error()), 600)
}

func TestPredecessorAddressIsAnID(t *testing.T) {
	t.Parallel()
	const id = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
	spec, err := Parse(service(map[string]string{LeasewebID: id}))
	require.NoError(t, err)
	assert.Equal(t, id, spec.PredecessorAddress)
	spec, err = Parse(service(map[string]string{LeasewebID: "1&command=x"}))
	require.NoError(t, err)
	assert.Empty(t, spec.PredecessorAddress)
	assert.Len(t, spec.Warnings, 1)
}

// special are characters with a meaning in haproxy.cfg or in CloudStack's column of stickiness parameters.
func special(r rune) bool {
	return r > unicode.MaxASCII ||
		unicode.IsControl(r) ||
		unicode.IsSpace(r) ||
		strings.ContainsRune("#\"'\\${}()[]%=&;|<>`!*,", r)
}

// checkSafe fails if a value of an accepted Service could change the meaning of a line of the router's configuration.
func checkSafe(t *testing.T, svc *corev1.Service) {
	t.Helper()
	spec, err := Parse(svc)
	if err != nil {
		return
	}

	check := func(what, value string, limit int) {
		if strings.ContainsFunc(value, special) || len(value) > limit {
			t.Errorf("%s: %q is accepted out of %q", what, value, svc.Annotations)
		}
	}

	if spec.Stickiness != nil {
		check("method", spec.Stickiness.Method, 20)
		for name, value := range spec.Stickiness.Params {
			check("option", name, 20)
			check("option "+name, value, 253)
		}
	}

	for _, r := range spec.SourceRanges {
		check("range", r, 18)
	}

	check("algorithm", spec.Algorithm, 10)
	check("address", spec.Address, 15)
	check("certificate", spec.SSLCertificate, 36)
	check("id of Leaseweb's", spec.PredecessorAddress, 36)
	check("hostname", spec.Hostname, 253)
	for _, name := range []string{spec.Network, spec.Project, spec.Zone} {
		if strings.ContainsFunc(name, unicode.IsControl) || len([]rune(name)) > maxName {
			t.Errorf("name %q is accepted", name)
		}
	}
}

// Accepted values are safe: the test combines parts of valid values and of attacks at random.
func TestAcceptedValuesAreSafe(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"cookie-name", "domain", "mode", "expire", "holdtime", "length", "tablesize", "indirect", "nocache", "=", "=",
		"=", ",", ",", "a", "SRV", "example.org", ".",
		"insert", "30m", "200k", "1", "true", " ", "\t", "\n", "\r", "\x00", "\x7f", "#", `"`, "'", `\`, "$", "{", "}",
		"&", "\u00a0", "\u2028", "é", "10.0.0.0/8", "203.0.113.9",
		"roundrobin", "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11", "net", "\n\tserver x 10.0.0.1:22",
	}

	methods := []string{"lb-cookie", "app-cookie", "source", "none", "lb-cookie\n"}
	random := rand.New(rand.NewPCG(15, 1))
	value := func() string {
		var b strings.Builder
		for range 1 + random.IntN(8) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}

	accepted := 0
	for range 50000 {
		svc := service(map[string]string{
			StickinessMethod:  methods[random.IntN(len(methods))],
			StickinessOptions: value(),
		})
		if random.IntN(2) == 0 {
			all := Table()
			svc.Annotations[all[random.IntN(len(all))].Name] = value()
			svc.Spec.LoadBalancerIP = value()
		}
		if _, err := Parse(svc); err == nil {
			accepted++
		}
		checkSafe(t, svc)
	}

	assert.Greater(t, accepted, 100, "the test tries too little that is accepted")
}

func FuzzAcceptedValuesAreSafe(f *testing.F) {
	f.Add("lb-cookie", "cookie-name=SRV,domain=.example.org,mode=insert", "10.0.0.0/8", "net", "203.0.113.9")
	f.Add("source", "expire=30m,tablesize=200k", "", "net\n", "1")
	f.Add("app-cookie", "cookie-name=a b", "::/0", "", "")
	f.Fuzz(func(t *testing.T, method, options, ranges, name, address string) {
		svc := service(map[string]string{
			StickinessMethod:  method,
			StickinessOptions: options,
			SourceCIDRs:       ranges,
			Network:           name,
			LeasewebID:        address,
			Algorithm:         name,
		})
		svc.Spec.LoadBalancerIP = address
		checkSafe(t, svc)
	})
}

// list returns n different items with commas between them.
func list(n int, item string) string {
	items := make([]string, 0, n)
	for i := range n {
		items = append(items, fmt.Sprintf(item, i))
	}
	return strings.Join(items, ",")
}

func onlyAnnotation(name, item string) func(n int) *corev1.Service {
	return func(n int) *corev1.Service { return service(map[string]string{name: list(n, item)}) }
}

// The cost of a refusal does not depend on the tenant's input. The test counts allocations, because they are the same
// on every machine.
func TestListsThatAreTooLongAreRefusedUnread(t *testing.T) {
	for name, of := range map[string]func(n int) *corev1.Service{
		SourceCIDRs:       onlyAnnotation(SourceCIDRs, "::%x"),
		SourceRangesBeta:  onlyAnnotation(SourceRangesBeta, "::%x"),
		ShareWith:         onlyAnnotation(ShareWith, "n%d"),
		NodeSelector:      onlyAnnotation(NodeSelector, "k%d"),
		SSLPorts:          onlyAnnotation(SSLPorts, "%d"),
		ProxyProtocol:     onlyAnnotation(ProxyProtocol, "p%d"),
		StickinessOptions: onlyAnnotation(StickinessOptions, "a%d"),
		specRanges: func(n int) *corev1.Service {
			return service(nil,
				func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = strings.Split(list(n, "::%x"), ",") })
		},
		specRanges + ": ": func(n int) *corev1.Service {
			blanks := strings.Repeat(" ", n*MaxRange/MaxItems-len("::"))
			return service(nil, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"::" + blanks} })
		},
		"spec.ports": func(n int) *corev1.Service {
			return service(nil, func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, n) })
		},
	} {
		for n, refused := range map[int]bool{MaxItems: false, MaxItems + 20: true, 20 * MaxItems: true} {
			svc := of(n)
			_, err := Parse(svc)
			said := err != nil && strings.Contains(err.Error(), name) && strings.Contains(err.Error(), "at most")

			assert.Equal(t, refused, said, "%s with %d items: %v", name, n, err)
			if refused {
				assert.Less(t, testing.AllocsPerRun(5, func() { _, _ = Parse(svc) }), 200.0, "%s with %d items", name,
					n)
				assert.Less(t, len(err.Error()), 1000)
			}
		}
	}
}

// crowded returns a Service with n ports and the largest allowed number of items in each list.
func crowded(n int) *corev1.Service {
	svc := service(map[string]string{
		SourceCIDRs:       list(n, "10.0.%d.0/24"),
		SourceRangesBeta:  list(n, "::%x"),
		ShareWith:         list(n, "n%d"),
		NodeSelector:      list(n, "k%d"),
		SSLPorts:          list(n, "%d"),
		SSLCertificate:    "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11",
		ProxyProtocol:     list(n, "p%d"),
		StickinessMethod:  "lb-cookie",
		StickinessOptions: strings.Repeat("nocache,", n-1) + "nocache",
	})

	for i := range n {
		svc.Annotations[fmt.Sprintf("%s%0150d", family, i)] = ""
		svc.Spec.LoadBalancerSourceRanges = append(svc.Spec.LoadBalancerSourceRanges,
			fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i)})
	}

	return svc
}

func TestCostOfAServiceGrowsWithItsSize(t *testing.T) {
	cost := func(n int, of func(*corev1.Service)) float64 {
		svc := crowded(n)
		return testing.AllocsPerRun(5, func() { of(svc) })
	}
	for name, of := range map[string]func(*corev1.Service){
		"parsed":      func(svc *corev1.Service) { _, _ = Parse(svc) },
		"fingerprint": func(svc *corev1.Service) { Fingerprint(svc) },
	} {
		half, whole := cost(MaxItems/2, of), cost(MaxItems, of)
		t.Logf("%s: %.0f allocations, %.0f for half of it", name, whole, half)
		assert.Less(t, whole, 2.5*half, name)
		assert.Less(t, whole, 30.0*MaxItems, name)
	}
}

func BenchmarkLargestService(b *testing.B) {
	svc := crowded(MaxItems)
	for b.Loop() {
		_, _ = Parse(svc)
	}
}

// The fast algorithm returns the same as a comparison of every pair.
func TestIntersect(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(49, 1))
	prefixes := func() (out []netip.Prefix) {
		for range random.IntN(12) {
			address := netip.AddrFrom4([4]byte{10, byte(random.IntN(4)) << 6, byte(random.IntN(2)) << 7, 0})
			out = append(out, netip.PrefixFrom(address, []int{0, 6, 8, 9, 10, 16, 17, 32}[random.IntN(8)]).Masked())
		}
		return Normalise(out)
	}

	for range 5000 {
		a, b := prefixes(), prefixes()
		var want []netip.Prefix
		for _, x := range a {
			for _, y := range b {
				if x.Bits() <= y.Bits() && x.Contains(y.Addr()) {
					want = append(want, y)
				} else if y.Bits() <= x.Bits() && y.Contains(x.Addr()) {
					want = append(want, x)
				}
			}
		}
		require.Equal(t, Strings(Normalise(want)), Strings(Intersect(a, b)), "%v and %v", a, b)
		require.Equal(t, Strings(Aggregate(want)), Common(Strings(a), Strings(b)), "%v and %v", a, b)
	}
}
