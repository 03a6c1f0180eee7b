// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func service(annotations map[string]string, mutate ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Annotations: annotations}}
	for _, m := range mutate {
		m(svc)
	}
	return svc
}

func TestParse(t *testing.T) {
	t.Parallel()
	ranges := func(items ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = items }
	}
	affinity := func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }
	ip := func(a string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = a } }
	open := Spec{SourceRanges: []string{Anyone}, Algorithm: RoundRobin}
	with := func(change func(*Spec)) Spec { s := open; change(&s); return s }

	tests := []struct {
		name    string
		svc     *corev1.Service
		want    Spec
		invalid []string // names of refused annotations
	}{
		{name: "nothing set", svc: service(nil), want: open},
		{name: "proxy protocol", svc: service(map[string]string{ProxyProtocol: "true"}), want: with(func(s *Spec) { s.ProxyProtocol = true })},
		{name: "proxy protocol as upstream documents it", svc: service(map[string]string{ProxyProtocol: "enabled"}), want: with(func(s *Spec) { s.ProxyProtocol = true })},
		{name: "proxy protocol off in capitals", svc: service(map[string]string{ProxyProtocol: " OFF "}), want: open},
		{name: "proxy protocol v2", svc: service(map[string]string{ProxyProtocol: "v2"}), invalid: []string{ProxyProtocol}},
		{name: "proxy protocol empty", svc: service(map[string]string{ProxyProtocol: ""}), invalid: []string{ProxyProtocol}},
		{name: "hostname", svc: service(map[string]string{Hostname: "lb.example.org"}), want: with(func(s *Spec) { s.Hostname = "lb.example.org" })},
		{name: "hostname empty", svc: service(map[string]string{Hostname: ""}), want: open},
		{name: "hostname is an address", svc: service(map[string]string{Hostname: "10.0.0.1"}), invalid: []string{Hostname}},
		{name: "hostname with underscore", svc: service(map[string]string{Hostname: "a_b.example.org"}), invalid: []string{Hostname}},
		{name: "keep", svc: service(map[string]string{KeepIP: "Yes"}), want: with(func(s *Spec) { s.KeepIP = true })},
		{name: "affinity", svc: service(nil, affinity), want: with(func(s *Spec) { s.Algorithm = Source })},
		{name: "algorithm", svc: service(map[string]string{Algorithm: "LeastConn"}), want: with(func(s *Spec) { s.Algorithm = LeastConn })},
		{name: "algorithm against affinity", svc: service(map[string]string{Algorithm: "leastconn"}, affinity), invalid: []string{Algorithm}},
		{name: "algorithm bogus", svc: service(map[string]string{Algorithm: "fastest"}), invalid: []string{Algorithm}},
		{name: "ranges of the spec", svc: service(nil, ranges("192.168.0.0/16", "10.1.2.3/8")), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8", "192.168.0.0/16"} })},
		{name: "ranges of the annotation", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/8, 172.16.0.0/12,10.0.0.0/8"}), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8", "172.16.0.0/12"} })},
		{name: "ranges of Kubernetes' annotation", svc: service(map[string]string{SourceRangesBeta: "10.0.0.0/8"}), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8"} })},
		{name: "bare address", svc: service(map[string]string{SourceCIDRs: "192.0.2.1"}), want: with(func(s *Spec) { s.SourceRanges = []string{"192.0.2.1/32"} })},
		{name: "empty denies all", svc: service(map[string]string{SourceCIDRs: " "}), want: with(func(s *Spec) { s.SourceRanges = []string{} })},
		{name: "both: the narrower counts", svc: service(map[string]string{SourceCIDRs: "10.1.0.0/16,11.0.0.0/8"}, ranges("10.0.0.0/8")), want: with(func(s *Spec) { s.SourceRanges = []string{"10.1.0.0/16"} })},
		{name: "both and nothing in common", svc: service(map[string]string{SourceCIDRs: "11.0.0.0/8"}, ranges("10.0.0.0/8")), want: with(func(s *Spec) { s.SourceRanges = []string{} })},
		{name: "IPv6 has no effect and never opens", svc: service(map[string]string{SourceCIDRs: "::/0"}), want: with(func(s *Spec) {
			s.SourceRanges = []string{}
			s.Warnings = []string{SourceCIDRs + ": ::/0 has no effect, public addresses are IPv4"}
		})},
		{name: "range bogus", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/33"}), invalid: []string{SourceCIDRs}},
		{name: "range with an empty item", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/8,"}), invalid: []string{SourceCIDRs}},
		{name: "address of the spec", svc: service(nil, ip("203.0.113.9")), want: with(func(s *Spec) { s.Address = "203.0.113.9" })},
		{name: "address of the annotation", svc: service(map[string]string{Address: "203.0.113.9"}), want: with(func(s *Spec) { s.Address = "203.0.113.9" })},
		{name: "addresses differ", svc: service(map[string]string{Address: "203.0.113.9"}, ip("203.0.113.10")), invalid: []string{Address}},
		{name: "address IPv6", svc: service(nil, ip("2001:db8::1")), invalid: []string{"spec.loadBalancerIP"}},
		{name: "upstream's record", svc: service(map[string]string{AssociatedByController: "true"}), want: with(func(s *Spec) { s.AllocatedByPredecessor = true })},
		{name: "typo", svc: service(map[string]string{Prefix + "proxy-protokoll": "true"}), want: with(func(s *Spec) {
			s.Warnings = []string{"annotation " + Prefix + "proxy-protokoll is not known and has no effect"}
		})},
		{name: "two wrong", svc: service(map[string]string{ProxyProtocol: "maybe", KeepIP: "maybe"}), invalid: []string{ProxyProtocol, KeepIP}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tc.svc)
			if len(tc.invalid) == 0 {
				require.NoError(t, err)
				assert.Equal(t, tc.want, got)
				return
			}
			require.Error(t, err)
			var ie *InvalidError
			require.ErrorAs(t, err, &ie)
			assert.NotEmpty(t, ie.Allowed)
			for _, name := range tc.invalid {
				assert.Contains(t, err.Error(), name)
			}
		})
	}
}

func TestKeepIPIsKeptInDoubt(t *testing.T) {
	t.Parallel()
	spec, err := Parse(service(map[string]string{KeepIP: "of course"}))
	require.Error(t, err)
	assert.True(t, spec.KeepIP)
}

func TestBoolSpellings(t *testing.T) {
	t.Parallel()
	for _, word := range strings.Split(booleans, ", ") {
		for _, spelling := range []string{word, strings.ToUpper(word), " " + word + " "} {
			_, ok := Bool(spelling)
			assert.True(t, ok, spelling)
		}
	}
	for _, wrong := range []string{"", "1", "0", "t", "y", "truth", "enable"} {
		_, ok := Bool(wrong)
		assert.False(t, ok, wrong)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	t.Parallel()
	in := Records{
		Addresses: []AddressRecord{{ID: "a", IP: "203.0.113.9", NetworkID: "n", Allocated: true, Tagged: true}},
		Pending:   []PendingAllocation{{JobID: "j", NetworkID: "n", Since: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}},
	}
	out, err := ParseRecords(in.Values())
	require.NoError(t, err)
	assert.True(t, in.Equal(out))
	empty, err := ParseRecords(Records{}.Values())
	require.NoError(t, err)
	assert.True(t, empty.Empty())
	_, err = ParseRecords(map[string]string{Addresses: "203.0.113.9"})
	require.ErrorContains(t, err, Addresses)
}

func TestTableIsSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range Table() {
		assert.False(t, seen[d.Name], d.Name)
		seen[d.Name] = true
		assert.NotEmpty(t, d.Doc, d.Name)
		assert.NotEmpty(t, d.Impact, d.Name)
		assert.NotEmpty(t, d.Since, d.Name)
		if d.Writer != ByUser {
			continue
		}
		require.NotEmpty(t, d.Allowed, d.Name)
		_, err := Parse(service(map[string]string{d.Name: d.Example}))
		require.NoError(t, err, "the example of %s", d.Name)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("true", "10.0.0.0/8,::/0", "203.0.113.9", "lb.example.org", `[{"id":"x"}]`)
	f.Add("", "", "", "", "")
	f.Fuzz(func(t *testing.T, boolean, ranges, address, hostname, records string) {
		spec, err := Parse(service(map[string]string{
			ProxyProtocol: boolean, KeepIP: boolean, SourceCIDRs: ranges, Address: address, Hostname: hostname, Addresses: records, Allocation: records,
		}))
		if err != nil {
			var ie *InvalidError
			if errors.As(err, &ie) && ie.Allowed == "" {
				t.Errorf("no allowed values in %v", err)
			}
			return
		}
		for _, r := range spec.SourceRanges {
			p, perr := netip.ParsePrefix(r)
			if perr != nil || p != p.Masked() || !p.Addr().Is4() {
				t.Errorf("range %q out of %q", r, ranges)
			}
		}
		if strings.TrimSpace(ranges) == "" && !spec.DenyAll() {
			t.Error("an empty list must deny all")
		}
	})
}
