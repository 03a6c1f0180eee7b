// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
)

// services are the scenarios of Services.
func services(at string) []scenario {
	return []scenario{
		{name: at + ": a Service comes and goes", at: at, run: comesAndGoes},
	}
}

// comesAndGoes makes a Service of two ports and deletes it.
func comesAndGoes(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web", ports(80, 443))
	if err != nil {
		return "", err
	}
	if err := e.serves(ctx, ip, "80", "443"); err != nil {
		return "", err
	}
	if err := e.filterIs(ctx, ip, "80", everybody); err != nil {
		return "", err
	}
	if err := e.remove(ctx, "web"); err != nil {
		return "", err
	}
	left, err := e.addresses(ctx)
	if err != nil {
		return "", err
	}
	if left[ip] != "" {
		return "", fmt.Errorf("address %s is still the account's", ip)
	}
	return "2 rules with all nodes, open to everybody; address released", nil
}
