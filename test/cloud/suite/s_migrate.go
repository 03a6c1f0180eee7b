// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/csccm/csccm/test/cloud/api"
)

// migrateScenarios rename rules.
func migrateScenarios(at string) []scenario {
	return []scenario{{name: at + ": migrate-rules and its undo", at: at, run: migrate}}
}

// migrate gives the rules of a Service names of the oldest form, lets csccm rename them, and takes it back.
func migrate(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", ports(80, 443))
	if err != nil {
		return "", err
	}
	if err := e.serves(ctx, ip, "80", "443"); err != nil {
		return "", err
	}
	modern, err := e.rules(ctx, ip)
	if err != nil {
		return "", err
	}
	for _, r := range modern {
		if _, err := e.world.User.Do(ctx, "updateLoadBalancerRule", api.Params{
			"id": r.ID, "name": strings.Replace(r.Name, "-tcp-", "-", 1), "protocol": r.Protocol, "algorithm": r.Algorithm,
		}); err != nil {
			return "", err
		}
	}
	old, err := e.rules(ctx, ip)
	if err != nil {
		return "", err
	}
	journal := filepath.Join(e.home, "migrate.jsonl")
	for _, c := range []struct {
		args []string
		want map[string]rule
	}{
		{[]string{"--dry-run"}, old},
		{[]string{"--yes", "--journal", journal}, modern},
		{[]string{"--yes", "--undo", journal, "--journal", journal + ".undo"}, old},
		{[]string{"--yes", "--journal", journal + ".again"}, modern},
	} {
		if _, err := e.csccm(ctx, append([]string{"migrate-rules"}, c.args...)...); err != nil {
			return "", err
		}
		now, err := e.rules(ctx, ip)
		if err != nil {
			return "", err
		}
		for port, want := range c.want {
			if got := now[port]; got.ID != want.ID || got.Name != want.Name || fmt.Sprint(got.Members) != fmt.Sprint(want.Members) || got.Protocol != want.Protocol {
				return "", fmt.Errorf("after migrate-rules %s port %s is rule %s %s with %v, want %s %s with %v",
					strings.Join(c.args, " "), port, got.ID, got.Name, got.Members, want.ID, want.Name, want.Members)
			}
		}
	}
	return "dry run, renamed, undone, renamed again; ids and members stayed", e.remove(ctx, "web")
}
