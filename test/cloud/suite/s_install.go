// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"strings"
)

// installs are the scenarios that install: each place by another kind of credentials.
func installs(at string) []scenario {
	switch at {
	case vpc:
		return []scenario{{name: at + ": install by keys", at: at, bare: true, run: installBy(byKeys)}}
	case project:
		return []scenario{{name: at + ": install into a project, with an account made for it", at: at, needs: []need{needAdmin}, bare: true, run: installBy(byRoot)}}
	}
	return []scenario{
		{name: at + ": install by a domain administrator's login", at: at, needs: []need{needAdmin}, bare: true, run: installBy(byDomainAdmin)},
		{name: at + ": install by a root administrator's login, after uninstall", at: at, needs: []need{needAdmin}, bare: true, run: installBy(byRoot)},
	}
}

// removals are the scenarios that uninstall.
func removals(at string) []scenario {
	all := []scenario{{name: at + ": uninstall", at: at, run: uninstalled}}
	if at == isolated {
		all = append(all, scenario{name: at + ": load balancers left at uninstall, cleaned up by the next install", at: at, run: orphans})
	}
	return all
}

// installBy installs with one kind of credentials; the doctor has nothing to find afterwards.
func installBy(how string) func(context.Context, *env) (string, error) {
	return func(ctx context.Context, e *env) (string, error) {
		if _, err := e.install(ctx, how); err != nil {
			return "", err
		}
		if err := e.healthy(ctx); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d nodes initialised, csccm doctor finds nothing", len(e.vms)), nil
	}
}

// healthy lets csccm doctor look.
func (p *place) healthy(ctx context.Context) error {
	out, code, err := p.csccmCode(ctx, "doctor", "-o", "short")
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("csccm doctor ended with %d: %s", code, tail(out, 20))
	}
	return nil
}

// uninstalled removes the controller; Services must be gone before.
func uninstalled(ctx context.Context, e *env) (string, error) {
	if _, err := e.create(ctx, "web"); err != nil {
		return "", err
	}
	if _, err := e.address(ctx, "web"); err != nil {
		return "", err
	}
	out, code, err := e.csccmCode(ctx, "uninstall", "--yes", "--delete-secret")
	if err != nil {
		return "", err
	}
	if code != 3 || !strings.Contains(out, e.namespace+"/web") {
		return "", fmt.Errorf("with a Service of type LoadBalancer it ended with %d, want 3 and the Service's name: %s", code, tail(out, 10))
	}
	if err := e.remove(ctx, "web"); err != nil {
		return "", err
	}
	if _, err := e.uninstall(ctx); err != nil {
		return "", err
	}
	return "refused while a Service exists; then nothing is left in the cluster", nil
}

// orphans uninstalls with a load balancer in place and deletes its Service; the controller of the next install removes what is left.
func orphans(ctx context.Context, e *env) (string, error) {
	ip, err := e.served(ctx, "web")
	if err != nil {
		return "", err
	}
	if _, err := e.uninstall(ctx, "--orphan-load-balancers", "--remove-finalizers"); err != nil {
		return "", err
	}
	if err := e.remove(ctx, "web"); err != nil {
		return "", err
	}
	if all, err := e.addresses(ctx); err != nil || all[ip] == "" {
		return "", fmt.Errorf("address %s was to be left, the account has %v, %w", ip, all, err)
	}
	if _, err := e.install(ctx, byRoot, "--set", "loadBalancers.cleanOrphans=true", "--set", "driftPeriod=10s"); err != nil {
		return "", err
	}
	return "the address and its rules were removed after two rounds", e.until(ctx, "what no Service has to be removed", func(ctx context.Context) error {
		all, err := e.addresses(ctx)
		if err == nil && all[ip] != "" {
			err = fmt.Errorf("%s is there", ip)
		}
		return err
	})
}
