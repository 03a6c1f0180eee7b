// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

func TestFlaw07ProxyProtocolInAVPC(t *testing.T) {
	t.Parallel()
	b := newBed(t, withVPC)
	b.service([]int{80}, annotate(annotation.ProxyProtocol, "true"))
	b.mustSync("v1")
	assert.Equal(t, "tcp-proxy", b.rulesAt(b.ip())[0].Protocol)
	own := grep(b.dump(), ownReason)
	require.Len(t, own, 1)
	assert.Contains(t, own[0], " allow tcp 80-80 [0.0.0.0/0]")
}

func TestFlaw08ACLItemsAreTheServicesOwn(t *testing.T) {
	t.Parallel()
	b := newBed(t, withVPC)
	before := grep(b.dump(), "acl ")
	b.service([]int{80})
	b.service([]int{80}, uid(mailUID), func(s *corev1.Service) { s.Name = "mail" })
	b.mustSync("v1")
	require.NoError(t, b.syncAs("mail", "v1"))
	require.NotEqual(t, b.ip(), b.getAs("mail").Status.LoadBalancer.Ingress[0].IP)
	items := func(name string) []string { return grep(b.dump(), `"Service default/`+name+" (csccm test") }
	require.Len(t, items("web"), 1)
	require.Len(t, items("mail"), 1)

	// The first Service goes: the other one's item stays, and the operator's.
	mail := items("mail")
	require.NoError(t, b.remove())
	assert.Empty(t, items("web"))
	assert.Equal(t, mail, items("mail"))
	for range 2 { // the second time by a controller that remembers nothing
		require.NoError(t, b.syncAs("mail", "v1"))
		assert.Equal(t, mail, items("mail"))
		b.restart()
	}
	require.NoError(t, b.removeAs("mail"))
	assert.Equal(t, before, grep(b.dump(), "acl "), "the operator's items for port 80 are untouched: "+strings.Join(before, "; "))
}
