// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/testenv"
)

// faultScenarios are about calls that fail and answers that are lost.
func faultScenarios(at string) []scenario {
	return []scenario{
		{name: at + ": every tenth call fails, every tenth answer is lost", at: at, run: faults},
		{name: at + ": killed with the answer of each call lost", at: at, run: crashPoints},
	}
}

const (
	faultServices = 8
	faultSeed     = 16
	faultShare    = 0.1
	// faultLimit is the time in which all Services are served.
	faultLimit = 2 * time.Minute
)

// faults serves Services while calls fail, then removes them.
func faults(ctx context.Context, e *env) (string, error) {
	undo := e.proxy.SetFault(proxy.Random(faultSeed, faultShare, faultShare))
	defer undo()
	mark, begun := e.proxy.Mark(), time.Now()
	for i := range faultServices {
		if _, err := e.create(ctx, fmt.Sprintf("web%d", i), ports(80, 443, 8443)); err != nil {
			return "", err
		}
	}
	for i := range faultServices {
		name := fmt.Sprintf("web%d", i)
		if err := testenv.Wait(ctx, faultLimit-time.Since(begun), "Service "+name+" to be served in spite of the faults", func(ctx context.Context) error {
			return e.isServed(ctx, name, "80", "443", "8443")
		}); err != nil {
			return "", fmt.Errorf("%w; all %d Services are to be served within %s; its Events: %s", err, faultServices, faultLimit, e.events(ctx, "Service", name))
		}
	}
	took := time.Since(begun)
	bad := 0
	for _, c := range e.proxy.Since(mark, proxy.Product) {
		if c.Fault != proxy.None {
			bad++
		}
	}
	addresses, err := e.addresses(ctx)
	if err != nil {
		return "", err
	}
	begun = time.Now()
	if err := e.removeAll(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d Services of 3 ports served after %.0f s at %d addresses, %d calls went wrong; removed after %.0f s",
		faultServices, took.Seconds(), len(addresses), bad, time.Since(begun).Seconds()), e.nothingStranded(ctx)
}

// isServed reports why a Service is not served at these ports by all nodes, or nil.
func (e *env) isServed(ctx context.Context, name string, ports ...string) error {
	s, err := e.get(ctx, name)
	if err != nil {
		return err
	}
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return errors.New("no address yet")
	}
	rules, err := e.rules(ctx, s.Status.LoadBalancer.Ingress[0].IP)
	if err != nil {
		return err
	}
	return e.complete(rules, ports, e.names())
}

// nothingStranded looks for addresses that no usual list shows: those whose acquisition or release did not end.
func (p *place) nothingStranded(ctx context.Context) error {
	for _, state := range []string{"Allocating", "Releasing"} {
		list, err := p.world.User.List(ctx, "listPublicIpAddresses", "publicipaddress", p.scope(api.Params{"allocatedonly": "false", "state": state}))
		if err != nil {
			return err
		}
		for _, o := range list {
			if o.Text("account") == p.world.Account || o.Text("projectid") == p.projectID && p.projectID != "" {
				return errors.New("address " + o.Text("ipaddress") + " is left in state " + state)
			}
		}
	}
	return nil
}
