// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const someID = "6b1f1e0a-5f7c-4c39-9a51-0c2d1f3e4a5b"

func TestParseProviderID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in  string
		id  string
		err string // part of the error
	}{
		{in: ""},
		{in: "external-cloudstack://" + someID, id: someID},
		{in: "external-cloudstack:///" + someID, id: someID},
		{in: "cloudstack://" + someID, id: someID},
		{in: "cloudstack:///" + someID, id: someID},
		{in: "cloudstack:////////" + someID, id: someID},
		{in: "cloudstack:/" + someID, id: someID},
		{in: "cloudstack://region-1/" + someID, id: someID},
		{in: "cloudstack:///" + someID + "/", id: someID},
		{in: "CloudStack:///" + strings.ToUpper(someID), id: someID},
		{in: someID, id: someID},
		{in: "k3s://worker-1"},
		{in: "rke2://worker-1"},
		{in: "aws:///eu-1a/i-123"},
		{in: "kind://podman/kind/" + someID},
		{in: "worker-1", err: "no scheme"},
		{in: "external-cloudstack://", err: "no id"},
		{in: "cloudstack:///worker-1", err: `"worker-1" is not a UUID`},
		{in: "cloudstack:///" + someID + "x", err: "not a UUID"},
		{in: "cloudstack:///12345", err: "want external-cloudstack://VM-ID"},
	} {
		t.Run(c.in, func(t *testing.T) {
			t.Parallel()
			id, err := ParseProviderID(c.in)
			assert.Equal(t, c.id, id)
			if c.err == "" {
				require.NoError(t, err)
				return
			}

			require.ErrorContains(t, err, c.err)
			assert.Equal(t, ReasonInvalidProviderID, ReasonOf(err))
		})
	}
}

func TestProviderIDForms(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "external-cloudstack://"+someID, ProviderID("", someID))
	assert.Equal(t, "external-cloudstack://"+someID, ProviderID(FormUpstream, someID))
	assert.Equal(t, "cloudstack:///"+someID, ProviderID(FormClusterAPI, someID))

	for in, want := range map[string]Form{
		"": FormUpstream, "external-cloudstack": FormUpstream, "external-cloudstack://": FormUpstream,
		"cloudstack": FormClusterAPI, "cloudstack:///": FormClusterAPI, " cloudstack ": FormClusterAPI,
	} {
		got, err := ParseForm(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
	_, err := ParseForm("aws")
	require.ErrorContains(t, err, `"aws" is not known`)
}

func FuzzParseProviderID(f *testing.F) {
	for _, s := range []string{"", "external-cloudstack://" + someID, "cloudstack:///" + someID, "k3s://n", "://",
		"cloudstack:////", "ä://ß"} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseProviderID(s)
		switch {
		case err != nil && (ReasonOf(err) != ReasonInvalidProviderID || id != ""):
			t.Fatalf("%q: id %q, error %v", s, id, err)
		case id != "":
			for _, form := range []Form{FormUpstream, FormClusterAPI} {
				again, err := ParseProviderID(ProviderID(form, id))
				if err != nil || again != id {
					t.Fatalf("%q does not survive %s: %q %v", s, form, again, err)
				}
			}
		}
	})
}
