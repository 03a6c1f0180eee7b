// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextsCount(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "1 action: a", Text(1, "a"))
	assert.Equal(t, "2 actions, the first: a", Text(2, "a"))
	on80 := OnRule{Port: 80}
	for want, a := range map[string]Action{
		"tag 1 rule":                                TagRules{Ports: []int{80}},
		"tag 2 rules":                               TagRules{Ports: []int{80, 81}},
		"add 1 member to the rule of port 80":       AddMembers{OnRule: on80, Members: []string{"a"}},
		"remove 2 members from the rule of port 80": RemoveMembers{OnRule: on80, Members: []string{"a", "b"}},
	} {
		assert.Equal(t, want, a.label())
	}
}
