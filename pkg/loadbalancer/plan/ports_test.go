// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOpenedPorts(t *testing.T) {
	t.Parallel()
	a := PortsOf([]Rule{{Protocol: ProtocolTCP, PublicPort: 443}, {Protocol: ProtocolTCPProxy, PublicPort: 80}, {Protocol: "udp", PublicPort: 53}})
	assert.Equal(t, "tcp:80,443 udp:53", a.String())
	assert.Equal(t, a, ParsePorts(a.String()))
	assert.Equal(t, "tcp:80,443,8080 udp:53", a.union(PortSet{"tcp": {8080, 80}}).String())
	assert.True(t, a.covers(PortSet{"udp": {53}}))
	assert.True(t, a.covers(nil))
	assert.False(t, a.covers(PortSet{"udp": {80}}))
	assert.False(t, PortSet(nil).covers(a))
	assert.Empty(t, PortSet(nil).String())
	assert.Nil(t, ParsePorts(""))
	assert.Equal(t, "tcp:80", ParsePorts("tcp:80,x").String(), "what cannot be read proves nothing")
}
