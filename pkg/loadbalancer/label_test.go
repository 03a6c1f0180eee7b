// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextsCount(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "1 action: a", ActionsText(1, "a"))
	assert.Equal(t, "2 actions, the first: a", ActionsText(2, "a"))
	for want, a := range map[string]Action{
		"tag 1 rule":                                {Kind: TagRules, Ports: []int{80}},
		"tag 2 rules":                               {Kind: TagRules, Ports: []int{80, 81}},
		"add 1 member to the rule of port 80":       {Kind: AddMembers, Port: 80, Members: []string{"a"}},
		"remove 2 members from the rule of port 80": {Kind: RemoveMembers, Port: 80, Members: []string{"a", "b"}},
	} {
		a.setLabel()
		assert.Equal(t, want, a.Label)
	}
}
