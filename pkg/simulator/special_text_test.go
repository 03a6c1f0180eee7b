// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Signatures are computed as Java encodes: what is signed as Go encodes is refused where the two differ.
func TestSignaturesOfSpecialCharacters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value string
		goWay bool // Go's encoding gives the same signature
	}{
		"blank": {"x y", false}, "plus": {"x+y", true}, "star": {"x*y", false}, "tilde": {"x~y", false}, "brackets": {"x[]y", true}, "umlaut": {"x\u00e4y", true},
		"quote": {"x'y", true}, "parentheses": {"x()y", true}, "emoji": {"x\U0001F680y", true}, "percent": {"x%y", true},
	} {
		var java strings.Builder
		wire.JavaEscape(&java, c.value)
		require.Equal(t, c.goWay, strings.EqualFold(java.String(), url.QueryEscape(c.value)), "%s: %s, Go's %s", name, &java, url.QueryEscape(c.value))
		if name == "blank" {
			require.Equal(t, "x%20y", java.String())
		}
	}
}

// Emoji pass the signature and break the database.
func TestTextsThatTheDatabaseDoesNotTake(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	const u, rocket = "k8s-owner", "x\U0001F680"
	h.fails(h.call(u, "listVirtualMachines", "keyword", rocket), 530, wire.CSRuntime, wire.InternalErrorText)
	ip := h.first(h.call(u, "listPublicIpAddresses"), "publicipaddress")
	h.fails(h.post(u, "createLoadBalancerRule", "publicipid", id(ip), "name", rocket, "algorithm", "roundrobin", "publicport", "80", "privateport", "80"), 530, wire.CSRuntime, wire.InternalErrorText)
	h.fails(h.call(u, "createTags", "resourceids", id(ip), "resourcetype", "PublicIpAddress", "tags[0].key", "k", "tags[0].value", rocket), 530, wire.CSRuntime, wire.InternalErrorText)
	h.ok(h.call(u, "listVirtualMachines", "keyword", "\u00e4\u20ac"))
	h.ok(h.call(u, "listVirtualMachines", "nosuchparameter", rocket))
}
