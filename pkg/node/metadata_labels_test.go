// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestInstanceTypeLabel(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 62) + " b"
	for _, c := range []struct{ in, keep, upstream string }{
		{"", "", ""},
		{"Small Instance", "Small_Instance", "SmallInstance"},
		{"m1.large", "m1.large", "m1large"},
		{"4 vCPU / 8 GiB", "4_vCPU___8_GiB", "4vCPU8GiB"},
		{"(custom)", "custom", "custom"},
		{"Größe L", "Gr__e_L", "GreL"},
		{"日本", "", ""},
		{"-_.x._-", "x", "x"},
		{long, strings.Repeat("a", 62), strings.Repeat("a", 62) + "b"},
		{"___" + strings.Repeat("b", 70), strings.Repeat("b", 63), strings.Repeat("b", 63)},
	} {
		assert.Equal(t, c.keep, InstanceTypeLabel(LabelKeepSeparators, c.in), c.in)
		assert.Equal(t, c.keep, InstanceTypeLabel("", c.in), c.in)
		assert.Equal(t, c.upstream, InstanceTypeLabel(LabelUpstream, c.in), c.in)
	}
}

func TestParseLabelForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]LabelForm{"": LabelKeepSeparators, "keep-separators": LabelKeepSeparators, "upstream": LabelUpstream} {
		got, err := ParseLabelForm(in)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ParseLabelForm("pretty")
	require.ErrorContains(t, err, `"pretty" is not known`)
}

func FuzzLabelValue(f *testing.F) {
	for _, s := range []string{"Small Instance", "ü", "\xff\xfe", "-", strings.Repeat("._-", 40), strings.Repeat("é", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{LabelValue(s), InstanceTypeLabel(LabelUpstream, s), InstanceTypeLabel(LabelKeepSeparators, s)} {
			if bad := validation.IsValidLabelValue(got); len(bad) > 0 {
				t.Fatalf("%q became %q: %v", s, got, bad)
			}
		}
		if valid := len(validation.IsValidLabelValue(s)) == 0; valid && LabelValue(s) != s {
			t.Fatalf("the valid value %q became %q", s, LabelValue(s))
		}
	})
}
