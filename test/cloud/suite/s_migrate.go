// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"reflect"
	"strings"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

// migrate gives the rules of a Service names of the oldest form, lets csccm rename them, and takes it back.
func migrate(e *env) string {
	ip := e.served("web", ports(80, 443))
	e.serves(ip, "80", "443")
	modern := e.rules(ip)
	for _, r := range modern {
		e.do("updateLoadBalancerRule", api.Params{
			"id": r.ID, "name": strings.Replace(r.Name, "-tcp-", "-", 1), "protocol": r.Protocol, "algorithm": r.Algorithm,
		})
	}
	old := e.rules(ip)
	for _, c := range []struct {
		args []string
		want map[string]rule
	}{
		{[]string{"--dry-run"}, old},
		{[]string{"--yes"}, modern},
		{[]string{"--yes", "--undo"}, old},
		{[]string{"--yes"}, modern},
	} {
		e.csccm(append([]string{"migrate-rules"}, c.args...)...)
		now := e.rules(ip)
		must.Be(reflect.DeepEqual(now, c.want), "after migrate-rules %s the rules are %v, want %v", strings.Join(c.args, " "), now, c.want)
	}
	return "dry run, renamed, undone, renamed again; ids and members stayed"
}
