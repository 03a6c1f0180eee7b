// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"encoding/json"
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
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/testenv/cases"
)

func service(annotations map[string]string, mutate ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Annotations: annotations}}
	for _, m := range mutate {
		m(svc)
	}
	return svc
}

// parseCase is a case of testdata/parse.yaml.
type parseCase struct {
	Annotations, Labels map[string]string
	Spec                corev1.ServiceSpec
	// Want is what differs from the Spec of a Service without annotations.
	Want json.RawMessage
	// Invalid are the annotations and fields that the error names.
	Invalid []string
}

// full adds Prefix to the name of an annotation that has no dot or slash.
func full(name string) string {
	if strings.ContainsAny(name, "./") {
		return name
	}
	return Prefix + name
}

func fullKeys(short map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range short {
		out[full(name)] = value
	}
	return out
}

func TestParse(t *testing.T) {
	cases.Run(t, "testdata/parse.yaml", func(t *testing.T, _ string, c parseCase) {
		svc := service(fullKeys(c.Annotations),
			func(s *corev1.Service) { s.Labels, s.Spec = fullKeys(c.Labels), c.Spec })
		got, err := Parse(svc)
		if len(c.Invalid) == 0 {
			require.NoError(t, err)
			want := Spec{SourceRanges: []string{Anyone}, Algorithm: RoundRobin}
			require.NoError(t, yaml.UnmarshalStrict(c.Want, &want))
			assert.Equal(t, want, got)
			return
		}

		var ie *InvalidError
		require.ErrorAs(t, err, &ie)
		assert.NotEmpty(t, ie.Allowed)
		for _, name := range c.Invalid {
			assert.Contains(t, err.Error(), full(name))
		}
		assert.Equal(t, slices.Contains(c.Invalid, "keep-ip"), got.KeepIP, "kept in doubt")
	})
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
		Pending: []PendingAllocation{
			{JobID: "j", NetworkID: "n", Since: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)},
		},
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
			spec, err := Parse(service(annotations,
				func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}} }))
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
			ProxyProtocol: boolean,
			KeepIP:        boolean,
			SourceCIDRs:   ranges,
			Address:       address,
			Hostname:      hostname,
			Addresses:     records,
			Allocation:    records,
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
		halves := Halves(netip.MustParsePrefix(r))
		require.Len(t, halves, 2)
		assert.Equal(t, []string{r}, Strings(Aggregate(halves)), "%s", halves)
	}

	assert.Empty(t, Halves(netip.MustParsePrefix("192.0.2.7/32")))
}
