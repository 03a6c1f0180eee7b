// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
)

func TestTextsCount(t *testing.T) {
	t.Parallel()
	one := Step{Action: TagRules{Ports: []int{80}}}
	assert.Equal(t, "1 action: tag 1 rule", Text([]Step{one}))
	assert.Equal(t, "2 actions, the first: tag 1 rule", Text([]Step{one, one}))
	on80 := OnRule{Port: 80}
	for want, a := range map[string]Action{
		"tag 2 rules":                               TagRules{Ports: []int{80, 81}},
		"add 1 member to the rule of port 80":       AddMembers{OnRule: on80, Members: []string{"a"}},
		"remove 2 members from the rule of port 80": RemoveMembers{OnRule: on80, Members: []string{"a", "b"}},
	} {
		assert.Equal(t, want, a.label())
	}
}

// The JSON of csccm plan -o json is read by scripts: kinds, labels and fields stay.
func TestActionsAsJSON(t *testing.T) {
	t.Parallel()
	on := OnAddress{AddressID: "ip", IP: "203.0.113.50"}
	rule80 := OnRule{OnAddress: on, RuleID: "r80", Port: 80}
	new80 := OnRule{OnAddress: on, Port: 80}
	tls := rule(80)
	tls.Certificate, tls.Stickiness = "c1", &annotation.Stickiness{Method: "SourceBased"}
	f := span("tcp", 80, 81, "10.0.0.0/8")
	const ruleJSON = `{"name":"a0123456789abcdef0123456789abcde-tcp-80","protocol":"tcp","algorithm":"roundrobin","publicPort":80,"privatePort":30080,"cidrs":["0.0.0.0/0"]}`
	const tlsJSON = `{"name":"a0123456789abcdef0123456789abcde-tcp-80","protocol":"tcp","algorithm":"roundrobin","publicPort":80,"privatePort":30080,"cidrs":["0.0.0.0/0"],"stickiness":{"method":"SourceBased"},"certificate":"c1"}`
	for _, tc := range []struct {
		a    Action
		want string
	}{
		{AllocateAddress{IP: "203.0.113.60", NetworkID: "net", VPCID: "vpc"}, `"kind":"allocate-address","label":"acquire address 203.0.113.60 in VPC vpc","ip":"203.0.113.60","networkID":"net","vpcID":"vpc"`},
		{RememberAddress{OnAddress: on, NetworkID: "net", Allocated: true, FirewallPorts: PortSet{"tcp": {22}}}, `"kind":"remember-address","label":"record address 203.0.113.50 on the Service","addressID":"ip","ip":"203.0.113.50","networkID":"net","allocated":true,"opened":{"tcp":[22]}`},
		{TagAddress{OnAddress: on}, `"kind":"tag-address","label":"tag address 203.0.113.50","addressID":"ip","ip":"203.0.113.50"`},
		{ReleaseAddress{OnAddress: on}, `"kind":"release-address","label":"release address 203.0.113.50","addressID":"ip","ip":"203.0.113.50"`},
		{ForgetAddress{OnAddress: on, Allocated: true, Keep: true, Note: "why"}, `"kind":"forget-address","label":"leave address 203.0.113.50: why","addressID":"ip","ip":"203.0.113.50","allocated":true,"keep":true,"note":"why"`},
		{CreateRule{OnRule: new80, NetworkID: "net", Rule: rule(80)}, `"kind":"create-rule","label":"create rule a0123456789abcdef0123456789abcde-tcp-80 on 203.0.113.50 (80 to node port 30080, tcp, roundrobin)","addressID":"ip","ip":"203.0.113.50","networkID":"net","port":80,"rule":` + ruleJSON},
		{UpdateRule{OnRule: rule80, Rule: rule(80)}, `"kind":"update-rule","label":"update rule of port 80 on 203.0.113.50 (tcp, roundrobin)","addressID":"ip","ip":"203.0.113.50","ruleID":"r80","port":80,"rule":` + ruleJSON},
		{DeleteRule{OnRule: rule80, Internal: true, Note: "why"}, `"kind":"delete-rule","label":"delete rule of port 80 on 203.0.113.50: why","addressID":"ip","ip":"203.0.113.50","internal":true,"ruleID":"r80","port":80,"note":"why"`},
		{TagRules{OnAddress: on, Ports: []int{80}}, `"kind":"tag-rules","label":"tag 1 rule on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","ports":[80]`},
		{AddMembers{OnRule: new80, Members: []string{"vm1"}}, `"kind":"add-members","label":"add 1 member to the rule of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","port":80,"members":["vm1"]`},
		{RemoveMembers{OnRule: rule80, Members: []string{"vm1"}}, `"kind":"remove-members","label":"remove 1 member from the rule of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","ruleID":"r80","port":80,"members":["vm1"]`},
		{SetStickiness{OnRule: new80, NetworkID: "net", Rule: tls}, `"kind":"set-stickiness","label":"set stickiness SourceBased of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","networkID":"net","port":80,"rule":` + tlsJSON},
		{DropStickiness{OnRule: rule80, Rule: rule(80), PolicyID: "p"}, `"kind":"drop-stickiness","label":"remove stickiness of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","ruleID":"r80","port":80,"rule":` + ruleJSON + `,"policyID":"p"`},
		{BindCertificate{OnRule: rule80, Rule: tls}, `"kind":"bind-certificate","label":"bind certificate c1 to port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","ruleID":"r80","port":80,"rule":` + tlsJSON},
		{OpenFirewall{OnAddress: on, Firewall: f}, `"kind":"open-firewall","label":"open ports 80-81 on 203.0.113.50 to 10.0.0.0/8","addressID":"ip","ip":"203.0.113.50","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
		{CloseFirewall{OnAddress: on, FirewallID: "f", Firewall: f}, `"kind":"close-firewall","label":"close ports 80-81 on 203.0.113.50 for 10.0.0.0/8","addressID":"ip","ip":"203.0.113.50","firewallID":"f","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
		{OpenACL{ACLID: "acl", Firewall: f}, `"kind":"open-acl","label":"open ports 80-81 in ACL acl to 10.0.0.0/8","aclID":"acl","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
		{CloseACL{ACLID: "acl", FirewallID: "i", Firewall: f}, `"kind":"close-acl","label":"close ports 80-81 in ACL acl for 10.0.0.0/8","aclID":"acl","firewallID":"i","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
	} {
		got, err := json.Marshal(Step{Action: tc.a, Wave: 6, Replaces: []string{"old"}})
		require.NoError(t, err)
		assert.JSONEq(t, `{"wave":6,"replaces":["old"],`+tc.want+`}`, string(got))
	}
}
