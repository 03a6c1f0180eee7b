// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOpenedPorts(t *testing.T) {
	t.Parallel()
	a := wantedPorts([]Rule{{Protocol: ProtocolTCP, PublicPort: 443}, {Protocol: ProtocolTCPProxy, PublicPort: 80}, {Protocol: "udp", PublicPort: 53}})
	assert.Equal(t, "tcp:80,443 udp:53", a.String())
	assert.Equal(t, a, parseOpened(a.String()))
	assert.Equal(t, "tcp:80,443,8080 udp:53", a.union(OpenedPorts{"tcp": {8080, 80}}).String())
	assert.True(t, a.covers(OpenedPorts{"udp": {53}}))
	assert.True(t, a.covers(nil))
	assert.False(t, a.covers(OpenedPorts{"udp": {80}}))
	assert.False(t, OpenedPorts(nil).covers(a))
	assert.Empty(t, OpenedPorts(nil).String())
	assert.Nil(t, parseOpened(""))
	assert.Equal(t, "tcp:80", parseOpened("tcp:80,x").String(), "what cannot be read proves nothing")
}
