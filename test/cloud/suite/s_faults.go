// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"time"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/must"
)

const (
	faultServices = 8
	faultSeed     = 16
	faultShare    = 0.1
	// faultLimit is the time in which all Services are served.
	faultLimit = 2 * time.Minute
)

// faults serves Services while calls fail, then removes them.
func faults(e *env) string {
	undo := e.proxy.SetFault(proxy.Random(faultSeed, faultShare, faultShare))
	defer undo()
	mark, begun := e.proxy.Mark(), time.Now()
	names := make([]string, faultServices)
	for i := range names {
		names[i] = fmt.Sprintf("web%d", i)
		e.create(names[i], ports(80, 443, 8443))
	}
	for _, name := range names {
		if err := e.within(faultLimit-time.Since(begun), "Service "+name+" to be served in spite of the faults", func() { e.isServed(name, "80", "443", "8443") }); err != nil {
			must.Fail("%w; all %d Services are to be served within %s; its Events: %s", err, faultServices, faultLimit, e.events(name))
		}
	}
	took := time.Since(begun)
	bad := 0
	for _, c := range e.proxy.Since(mark, proxy.Product) {
		if c.Fault != proxy.None {
			bad++
		}
	}
	must.Be(bad > 0, "no call failed and no answer was lost")
	addresses := len(e.addresses())
	begun = time.Now()
	e.removeAll()
	removed := time.Since(begun)
	e.nothingStranded()
	return fmt.Sprintf("%d Services of 3 ports served after %.0f s at %d addresses, %d calls went wrong; removed after %.0f s",
		faultServices, took.Seconds(), addresses, bad, removed.Seconds())
}

// isServed checks that a Service is served at these ports by all nodes.
func (e *env) isServed(name string, ports ...string) {
	in := e.ingress(name)
	must.Be(len(in) > 0, "no address yet")
	complete(e.rules(in[0].IP), ports, e.names())
}

// nothingStranded looks for addresses that no usual list shows: those whose acquisition or release did not end.
func (e *env) nothingStranded() {
	for _, state := range []string{"Allocating", "Releasing"} {
		for _, o := range e.list("listPublicIpAddresses", "publicipaddress", api.Params{"allocatedonly": "false", "state": state}) {
			ours := o.Text("account") == e.world.Account || o.Text("projectid") == e.projectID && e.projectID != ""
			must.Be(!ours, "address %s is left in state %s", o.Text("ipaddress"), state)
		}
	}
}
