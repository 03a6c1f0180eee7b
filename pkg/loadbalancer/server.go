// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// need is a command that the role has to allow, and what the server's version of it has to know.
type need struct{ command, param, field string }

func (n need) String() string {
	switch {
	case n.param != "":
		return fmt.Sprintf("%s has no parameter %s", n.command, n.param)
	case n.field != "":
		return fmt.Sprintf("the answer of %s has no field %s", n.command, n.field)
	}
	return n.command
}

// forwardNeeds are what forwarding ports needs.
var forwardNeeds = []need{
	{command: "createPortForwardingRule"}, {command: "updatePortForwardingRule"}, {command: "deletePortForwardingRule"},
	{command: "listPortForwardingRules"},
}

// timeoutNeeds are what time-outs of rules need: without the field, nothing shows what a rule has.
func timeoutNeeds(param string) []need {
	return []need{
		{command: "createLoadBalancerRule", param: param}, {command: "updateLoadBalancerRule", param: param},
		{command: "listLoadBalancerRules", field: param},
	}
}

// lacking returns the first need that the commands do not fulfil; nil for none.
func lacking(commands map[string]cloudstack.API, needs []need) *need {
	for i, n := range needs {
		api, ok := commands[n.command]
		if !ok || n.param != "" && !api.HasParam(n.param) || n.field != "" && !api.HasField(n.field) {
			return &needs[i]
		}
	}
	return nil
}

// serverAPIs is what the server's commands are for the role. It is asked for before the first Service that needs to know
// gets an address.
type serverAPIs struct {
	mu       sync.Mutex
	asked    time.Time // zero: not yet
	commands map[string]cloudstack.API
}

// missing returns what the server, or the role, lacks of the needs; nil for nothing. known is false where that cannot be
// found out. What is missing is asked for again where maxAge says that the answer is too old.
func (s *serverAPIs) missing(ctx context.Context, o Options, maxAge time.Duration, needs []need) (lacks *need, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := o.Clock.Now()
	if !s.asked.IsZero() {
		lacks, known = lacking(s.commands, needs), true
	}
	if o.Commands == nil || known && (lacks == nil || maxAge == 0 || now.Sub(s.asked) < maxAge) {
		return lacks, known
	}
	answer, err := o.Commands(ctx)
	if err != nil || len(answer) == 0 {
		return lacks, known
	}
	s.asked, s.commands = now, map[string]cloudstack.API{}
	for _, n := range append(timeoutNeeds(""), forwardNeeds...) { // the others would be some hundred KB
		if api, ok := answer[n.command]; ok {
			s.commands[n.command] = api
		}
	}
	return lacking(s.commands, needs), true
}
