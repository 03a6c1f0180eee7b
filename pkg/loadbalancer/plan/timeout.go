// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

// httpPort is the port on which a virtual router reads HTTP.
const httpPort = 80

// http reports whether a virtual router reads HTTP on the rule's port.
func (r Rule) http() bool {
	return r.PublicPort == httpPort || r.Protocol == ProtocolSSL || r.Stickiness != nil && strings.EqualFold(r.Stickiness.Method, annotation.LBCookie)
}

// HasTimeouts reports whether the Service asks for time-outs of its own.
func (f Facts) HasTimeouts() bool { return f.timeoutName() != "" }

// timeoutName is the annotation that asks for them.
func (f Facts) timeoutName() string {
	switch {
	case f.Spec.IdleTimeout > 0:
		return annotation.IdleTimeout
	case f.Spec.KeepAlive != nil:
		return annotation.KeepAlive
	}
	return ""
}

// checkTimeouts says why the time-outs that the Service asks for cannot be had.
func checkTimeouts(f Facts) *RefusalError {
	name := f.timeoutName()
	if name == "" || !f.rules() {
		return nil
	}
	refuse := func(message string) *RefusalError {
		return &RefusalError{Reason: ReasonUnsupportedSetting, Message: message, Remedy: "remove the annotation " + name}
	}
	switch n := f.Network; {
	case f.Spec.Internal:
		return refuse("internal load balancers have no time-outs of their own")
	case n != nil && !n.anywhere && !n.proxied():
		return refuse(fmt.Sprintf("network %q is balanced by %s, and only a virtual router takes time-outs", cmp.Or(n.Name, n.ID), strings.Join(n.Providers, ", ")))
	case f.NoTimeouts != "":
		return refuse("load balancer rules of this CloudStack have no time-outs of their own: " + f.NoTimeouts)
	}
	return nil
}

// timeoutsDiffer reports whether a rule has other time-outs than it should. What the Service does not ask for is left
// as it is: it may be somebody's choice in CloudStack's UI.
func timeoutsDiffer(want, have Rule) bool {
	return want.IdleTimeout > 0 && want.IdleTimeout != have.IdleTimeout ||
		want.KeepAlive != nil && (have.KeepAlive == nil || *have.KeepAlive != *want.KeepAlive)
}
