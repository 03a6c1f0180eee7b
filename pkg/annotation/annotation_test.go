// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
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
	ports := func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "https", Port: 443}}
	}
	const cert = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"

	tests := []struct {
		name    string
		svc     *corev1.Service
		want    Spec
		invalid []string // names of refused annotations
	}{
		{name: "nothing set", svc: service(nil), want: open},
		{name: "proxy protocol", svc: service(map[string]string{ProxyProtocol: "true"}), want: with(func(s *Spec) { s.ProxyProtocol = Ports{All: true} })},
		{name: "proxy protocol as upstream documents it", svc: service(map[string]string{ProxyProtocol: "enabled"}), want: with(func(s *Spec) { s.ProxyProtocol = Ports{All: true} })},
		{name: "proxy protocol off in capitals", svc: service(map[string]string{ProxyProtocol: " OFF "}), want: open},
		{name: "proxy protocol v2", svc: service(map[string]string{ProxyProtocol: "v2"}), invalid: []string{ProxyProtocol}},
		{name: "proxy protocol empty", svc: service(map[string]string{ProxyProtocol: ""}), invalid: []string{ProxyProtocol}},
		{name: "hostname", svc: service(map[string]string{Hostname: "lb.example.org"}), want: with(func(s *Spec) { s.Hostname = "lb.example.org" })},
		{name: "hostname empty", svc: service(map[string]string{Hostname: ""}), invalid: []string{Hostname}},
		{name: "address empty", svc: service(map[string]string{Address: " "}), invalid: []string{Address}},
		{name: "address empty, and one in the spec", svc: service(map[string]string{Address: ""}, ip("203.0.113.9")), invalid: []string{Address}},
		{name: "hostname is an address", svc: service(map[string]string{Hostname: "10.0.0.1"}), invalid: []string{Hostname}},
		{name: "hostname with underscore", svc: service(map[string]string{Hostname: "a_b.example.org"}), invalid: []string{Hostname}},
		{name: "keep", svc: service(map[string]string{KeepIP: "Yes"}), want: with(func(s *Spec) { s.KeepIP = true })},
		{name: "affinity", svc: service(nil, affinity), want: with(func(s *Spec) { s.Algorithm = Source })},
		{name: "algorithm", svc: service(map[string]string{Algorithm: "LeastConn"}), want: with(func(s *Spec) { s.Algorithm, s.AlgorithmSet = LeastConn, true })},
		{name: "mode", svc: service(map[string]string{Mode: " Direct ", DirectSpread: "16"}), want: with(func(s *Spec) { s.Mode, s.DirectSpread = Direct, 16 })},
		{name: "mode bogus", svc: service(map[string]string{Mode: "dsr"}), invalid: []string{Mode}},
		{name: "mode empty", svc: service(map[string]string{Mode: ""}), invalid: []string{Mode}},
		{name: "direct beside what is off", svc: service(map[string]string{Mode: Direct, ProxyProtocol: "false", Internal: "no", StickinessMethod: "none"}), want: with(func(s *Spec) { s.Mode = Direct })},
		{name: "direct with a load balancer's features", svc: service(map[string]string{Mode: Direct, ProxyProtocol: "true", Algorithm: Source, StickinessMethod: "source", Internal: "true"}),
			invalid: []string{Mode, Mode, Mode, Mode}},
		{name: "spread 0", svc: service(map[string]string{DirectSpread: "0"}), invalid: []string{DirectSpread}},
		{name: "spread 33", svc: service(map[string]string{DirectSpread: "33"}), invalid: []string{DirectSpread}},
		{name: "spread 08", svc: service(map[string]string{DirectSpread: "08"}), invalid: []string{DirectSpread}},
		{name: "algorithm against affinity", svc: service(map[string]string{Algorithm: "leastconn"}, affinity), invalid: []string{Algorithm}},
		{name: "algorithm bogus", svc: service(map[string]string{Algorithm: "fastest"}), invalid: []string{Algorithm}},
		{name: "ranges of the spec", svc: service(nil, ranges("192.168.0.0/16", "10.1.2.3/8")), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8", "192.168.0.0/16"} })},
		{name: "ranges of the annotation", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/8, 172.16.0.0/12,10.0.0.0/8"}), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8", "172.16.0.0/12"} })},
		{name: "ranges of Kubernetes' annotation", svc: service(map[string]string{SourceRangesBeta: "10.0.0.0/8"}), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8"} })},
		{name: "bare address", svc: service(map[string]string{SourceCIDRs: "192.0.2.1"}), want: with(func(s *Spec) { s.SourceRanges = []string{"192.0.2.1/32"} })},
		{name: "empty denies all", svc: service(map[string]string{SourceCIDRs: " "}), want: with(func(s *Spec) { s.SourceRanges = []string{} })},
		{name: "both: the narrower counts", svc: service(map[string]string{SourceCIDRs: "10.1.0.0/16,11.0.0.0/8"}, ranges("10.0.0.0/8")), want: with(func(s *Spec) { s.SourceRanges = []string{"10.1.0.0/16"} })},
		{name: "both and nothing in common", svc: service(map[string]string{SourceCIDRs: "11.0.0.0/8"}, ranges("10.0.0.0/8")), want: with(func(s *Spec) {
			s.SourceRanges = []string{}
			s.Warnings = []string{"spec.loadBalancerSourceRanges and " + SourceCIDRs + " have no source range in common, so that nobody may connect"}
		})},
		{name: "ranges separated by blanks, lines and commas too many", svc: service(map[string]string{SourceCIDRs: " 10.0.0.0/8\n192.168.0.0/16\t172.16.0.0/12 ,, "}), want: with(func(s *Spec) {
			s.SourceRanges = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
		})},
		{name: "leading zeros are decimal", svc: service(nil, ranges("010.008.000.0/08")), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8"} })},
		{name: "IPv4-mapped ranges are IPv4", svc: service(map[string]string{SourceCIDRs: "::ffff:203.0.113.7/120,::FFFF:c0a8:1"}), want: with(func(s *Spec) {
			s.SourceRanges = []string{"192.168.0.1/32", "203.0.113.0/24"}
		})},
		{name: "a label, and annotations of other clouds", svc: service(map[string]string{
			"load-balancer.hetzner.cloud/location": "fsn1", "loadbalancer.openstack.org/keep-floatingip": "true",
		}, func(s *corev1.Service) { s.Labels = map[string]string{SourceCIDRs: "10.0.0.0/8", "app": "web"} }), want: with(func(s *Spec) {
			s.Warnings = []string{
				"annotation load-balancer.hetzner.cloud/location and 1 more is another controller's and has no effect; those of csccm begin with " + Prefix,
				"label " + SourceCIDRs + " has no effect: make it an annotation",
			}
		})},
		{name: "separators without a range", svc: service(map[string]string{SourceCIDRs: " , "}), invalid: []string{SourceCIDRs}},
		{name: "a mask", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/255.0.0.0"}), invalid: []string{SourceCIDRs}},
		{name: "a semicolon", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/8;11.0.0.0/8"}), invalid: []string{SourceCIDRs}},
		{name: "IPv6 has no effect and never opens", svc: service(map[string]string{SourceCIDRs: "::/0"}), want: with(func(s *Spec) {
			s.SourceRanges = []string{}
			s.Warnings = []string{
				SourceCIDRs + " has no IPv4 range, so that nobody may connect", SourceCIDRs + ": ::/0 has no effect, public addresses are IPv4",
			}
		})},
		{name: "range bogus", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/33"}), invalid: []string{SourceCIDRs}},
		{name: "range with an empty item", svc: service(map[string]string{SourceCIDRs: "10.0.0.0/8,"}), want: with(func(s *Spec) { s.SourceRanges = []string{"10.0.0.0/8"} })},
		{name: "address of the spec", svc: service(nil, ip("203.0.113.9")), want: with(func(s *Spec) { s.Address = "203.0.113.9" })},
		{name: "address of the annotation", svc: service(map[string]string{Address: "203.0.113.9"}), want: with(func(s *Spec) { s.Address = "203.0.113.9" })},
		{name: "addresses differ", svc: service(map[string]string{Address: "203.0.113.9"}, ip("203.0.113.10")), invalid: []string{Address}},
		{name: "address IPv6", svc: service(nil, ip("2001:db8::1")), invalid: []string{"spec.loadBalancerIP"}},
		{name: "upstream's record", svc: service(map[string]string{AssociatedByController: "true"}), want: with(func(s *Spec) { s.AllocatedByPredecessor = true })},
		{name: "typo", svc: service(map[string]string{Prefix + "proxy-protokoll": "true"}), want: with(func(s *Spec) {
			s.Warnings = []string{"annotation " + Prefix + "proxy-protokoll is not known and has no effect, did you mean " + ProxyProtocol + "?"}
		})},
		{name: "typo in the prefix", svc: service(map[string]string{"service.beta.kubernetes.io/cloudstack-loadbalancer-keep-ip": "true"}), want: with(func(s *Spec) {
			s.Warnings = []string{"annotation service.beta.kubernetes.io/cloudstack-loadbalancer-keep-ip is not known and has no effect, did you mean " + KeepIP + "?"}
		})},
		{name: "like none", svc: service(map[string]string{"service.beta.kubernetes.io/cloudstack-colour-of-the-ports": "red"}), want: with(func(s *Spec) {
			s.Warnings = []string{"annotation service.beta.kubernetes.io/cloudstack-colour-of-the-ports is not known and has no effect"}
		})},
		{name: "proxy protocol on ports", svc: service(map[string]string{ProxyProtocol: "https, 80"}, ports), want: with(func(s *Spec) { s.ProxyProtocol = Ports{Numbers: []int{80, 443}} })},
		{name: "proxy protocol on a port that is not there", svc: service(map[string]string{ProxyProtocol: "8080"}, ports), invalid: []string{ProxyProtocol}},
		{name: "certificate", svc: service(map[string]string{SSLCertificate: cert, SSLPorts: "443"}, ports), want: with(func(s *Spec) {
			s.SSLCertificate, s.SSLPorts = cert, Ports{Numbers: []int{443}}
		})},
		{name: "certificate for all ports", svc: service(map[string]string{SSLCertificate: cert}, ports), want: with(func(s *Spec) {
			s.SSLCertificate, s.SSLPorts = cert, Ports{All: true}
		})},
		{name: "certificate by name", svc: service(map[string]string{SSLCertificate: "wildcard"}, ports), invalid: []string{SSLCertificate}},
		{name: "TLS ports without a certificate", svc: service(map[string]string{SSLPorts: "443"}, ports), invalid: []string{SSLPorts}},
		{name: "TLS and PROXY on one port", svc: service(map[string]string{SSLCertificate: cert, ProxyProtocol: "443"}, ports), invalid: []string{SSLCertificate}},
		{name: "TLS and PROXY on two ports", svc: service(map[string]string{SSLCertificate: cert, SSLPorts: "https", ProxyProtocol: "http"}, ports), want: with(func(s *Spec) {
			s.SSLCertificate, s.SSLPorts, s.ProxyProtocol = cert, Ports{Numbers: []int{443}}, Ports{Numbers: []int{80}}
		})},
		{name: "stickiness", svc: service(map[string]string{StickinessMethod: "LB-cookie", StickinessOptions: "cookie-name=SRV, nocache"}), want: with(func(s *Spec) {
			s.Stickiness = &Stickiness{Method: LBCookie, Params: map[string]string{"cookie-name": "SRV", "nocache": "true"}}
		})},
		{name: "stickiness by source", svc: service(map[string]string{StickinessMethod: "source"}), want: with(func(s *Spec) {
			s.Stickiness = &Stickiness{Method: SourceBased, Params: map[string]string{}}
		})},
		{name: "stickiness that virtual routers do not have", svc: service(map[string]string{StickinessMethod: "app-cookie", StickinessOptions: "request-learn"}), want: with(func(s *Spec) {
			s.Stickiness = &Stickiness{Method: AppCookie, Params: map[string]string{"request-learn": "true"}}
		})},
		{name: "stickiness none", svc: service(map[string]string{StickinessMethod: "none"}), want: open},
		{name: "stickiness bogus", svc: service(map[string]string{StickinessMethod: "cookies"}), invalid: []string{StickinessMethod}},
		{name: "option of another method", svc: service(map[string]string{StickinessMethod: "source", StickinessOptions: "cookie-name=x"}), invalid: []string{StickinessOptions}},
		{name: "option without its value", svc: service(map[string]string{StickinessMethod: "source", StickinessOptions: "expire"}), invalid: []string{StickinessOptions}},
		{name: "no mode of HAProxy's", svc: service(map[string]string{StickinessMethod: "lb-cookie", StickinessOptions: "mode=passive"}), invalid: []string{StickinessOptions}},
		{name: "a mode that hides nothing", svc: service(map[string]string{StickinessMethod: "lb-cookie", StickinessOptions: "mode=rewrite,indirect"}), invalid: []string{StickinessOptions}},
		{name: "a mode", svc: service(map[string]string{StickinessMethod: "lb-cookie", StickinessOptions: "mode=insert,indirect"}), want: with(func(s *Spec) {
			s.Stickiness = &Stickiness{Method: LBCookie, Params: map[string]string{"mode": "insert", "indirect": "true"}}
		})},
		{name: "options without a method", svc: service(map[string]string{StickinessOptions: "expire=30m"}), want: with(func(s *Spec) {
			s.Warnings = []string{StickinessOptions + " has no effect without " + StickinessMethod}
		})},
		{name: "share", svc: service(map[string]string{ShareWith: "shop, blog,shop"}), want: with(func(s *Spec) { s.ShareWith = []string{"blog", "shop"} })},
		{name: "share with all", svc: service(map[string]string{ShareWith: " * "}), want: with(func(s *Spec) { s.ShareWith = []string{"*"} })},
		{name: "share with nobody", svc: service(map[string]string{ShareWith: " "}), want: open},
		{name: "share with what is not a namespace", svc: service(map[string]string{ShareWith: "shop,No_Namespace"}), invalid: []string{ShareWith}},
		{name: "share with an empty item", svc: service(map[string]string{ShareWith: "shop,"}), invalid: []string{ShareWith}},
		{name: "internal", svc: service(map[string]string{Internal: "on"}), want: with(func(s *Spec) { s.Internal = true })},
		{name: "where", svc: service(map[string]string{Network: " k8s-net", Project: "shop", Zone: "z1"}), want: with(func(s *Spec) {
			s.Network, s.Project, s.Zone = "k8s-net", "shop", "z1"
		})},
		{name: "where, empty", svc: service(map[string]string{Network: "", Zone: " "}), invalid: []string{Network, Zone}},
		{name: "node selector bogus", svc: service(map[string]string{NodeSelector: "a=b=c"}), invalid: []string{NodeSelector}},
		{name: "a time-out that nothing honours", svc: service(nil, affinity, func(s *corev1.Service) {
			seconds := int32(60)
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}), want: with(func(s *Spec) {
			s.Algorithm = Source
			s.Warnings = []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds has no effect in the load balancer; " +
				StickinessMethod + ": source with " + StickinessOptions + ": expire=… has"}
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
			var ie *InvalidError
			require.ErrorAs(t, err, &ie)
			assert.NotEmpty(t, ie.Allowed)
			assert.Equal(t, slices.Contains(tc.invalid, KeepIP), got.KeepIP, "kept in doubt")
			for _, name := range tc.invalid {
				assert.Contains(t, err.Error(), name)
			}
		})
	}
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

// A row of the table that Parse does not read would be documented and ignored.
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
		base := map[string]string{}
		switch d.Name {
		case SSLPorts:
			base[SSLCertificate] = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
		case StickinessOptions:
			base[StickinessMethod] = "lb-cookie"
		}
		parse := func(annotations map[string]string) Spec {
			spec, err := Parse(service(annotations, func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}} }))
			require.NoError(t, err, "the example of %s", d.Name)
			return spec
		}
		with := maps.Clone(base)
		with[d.Name] = d.Example
		assert.NotEqual(t, parse(base), parse(with), "Parse does not read %s", d.Name)
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

func TestAggregateAndHalves(t *testing.T) {
	t.Parallel()
	parse := func(items ...string) []netip.Prefix {
		v4, _, err := ParseRanges(items)
		require.NoError(t, err)
		return v4
	}
	for _, tc := range []struct{ in, want []string }{
		{[]string{"10.0.0.0/9", "10.128.0.0/9"}, []string{"10.0.0.0/8"}},
		{[]string{"10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/8"}, []string{"10.0.0.0/7"}},
		{[]string{"0.0.0.0/1", "128.0.0.0/1"}, []string{Anyone}},
		{[]string{"10.0.0.0/8", "12.0.0.0/8"}, []string{"10.0.0.0/8", "12.0.0.0/8"}},
		{nil, []string{}},
	} {
		assert.Equal(t, tc.want, Strings(Aggregate(parse(tc.in...))))
	}
	for _, r := range []string{Anyone, "10.0.0.0/8", "192.0.2.6/31"} {
		low, high, ok := Halves(netip.MustParsePrefix(r))
		require.True(t, ok)
		assert.Equal(t, []string{r}, Strings(Aggregate([]netip.Prefix{high, low})), "%s and %s", low, high)
	}
	_, _, ok := Halves(netip.MustParsePrefix("192.0.2.7/32"))
	assert.False(t, ok)
}
