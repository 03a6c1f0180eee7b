// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/kube/rights"
)

// TestAuditCountsWhatIsRefused: neither what was asked a moment before the API server knew the role, nor what a controller asks
// whose role is taken away.
func TestAuditCountsWhatIsRefused(t *testing.T) {
	t.Parallel()
	event := func(second int, user, agent, verb, resource, decision, group string) string {
		as := ""
		if group != "" {
			as = fmt.Sprintf(`,"impersonatedUser":{"groups":[%q]}`, group)
		}
		return fmt.Sprintf(`{"verb":%q,"userAgent":%q,"user":{"username":%q},"objectRef":{"resource":%q},"annotations":{"authorization.k8s.io/decision":%q},`+
			`"requestReceivedTimestamp":"2026-01-02T03:04:%02d.0Z","stageTimestamp":"2026-01-02T03:04:%02d.5Z"%s}`+"\n", verb, agent, user, resource, decision, second, second, as)
	}
	const account, agent = "system:serviceaccount:kube-system:cloudstack-cloud-controller-manager", "csccm/v1 (install)"
	lists := func(second int, decision string) string {
		return event(second, account, "x", "list", "nodes", decision, "")
	}
	as := func(second int, decision, group string) string {
		return event(second, "admin", agent, "get", "secrets", decision, group)
	}
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"allowed":                     {lists(1, "allow"), nil},
		"refused":                     {lists(1, "forbid"), []string{"controller: list nodes"}},
		"allowed a moment later":      {lists(1, "forbid") + lists(2, "allow"), nil},
		"refused afterwards":          {lists(1, "allow") + lists(2, "forbid"), []string{"controller: list nodes"}},
		"allowed to another group":    {as(1, "forbid", rights.Reader) + as(2, "allow", rights.Operator), []string{"csccm: get secrets"}},
		"the role goes, written late": {lists(2, "forbid") + event(1, "admin", agent, "delete", "rolebindings", "allow", ""), nil},
		"nothing yet":                 {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := audited{used: map[rights.Request]int{}, asked: map[asked]int{}, denied: map[string]int{}}
			require.NoError(t, a.read(slices.Collect(strings.Lines(c.log))))
			var got []string
			for call := range a.denied {
				got = append(got, strings.TrimSuffix(call, " ()"))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("refused are %q, want %q", got, c.want)
			}
		})
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command, verb, group, resource, namespace string
		want                                      bool
	}{
		{"doctor", "list", "", "services", "", true},
		{"doctor", "list", "", "services", "default", true}, // Everywhere includes every namespace
		{"doctor", "list", "", "secrets", "infra", true},
		{"doctor", "list", "", "secrets", "", false},
		{"doctor", "list", "", "secrets", "default", false},
		{"doctor", "delete", "", "secrets", "infra", false},
		{"install", "create", "apps", "daemonsets", "infra", true},      // with kind: DaemonSet
		{"install", "patch", "apps", "daemonsets", "kube-system", true}, // another provider's
		{"upgrade", "delete", "", "serviceaccounts", "kube-system", false},
		{"install", "create", "", "daemonsets", "infra", false},
	} {
		x := rights.Request{Verb: c.verb, Group: c.group, Resource: c.resource, Namespace: c.namespace}
		ok := slices.ContainsFunc(rights.Table(), func(r rights.Right) bool { return allows(&r, c.command, x, "infra") })
		require.Equal(t, c.want, ok, "%s: %s", c.command, x)
	}
}
