// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/server"
)

// deeds are the changes that the page can make to objects, as another user of the same CloudStack would make them.
var deeds = []struct {
	kind                 model.Kind
	name, title, command string
}{
	{model.KindVM, "destroy", "Destroy the VM", "destroyVirtualMachine"},
	{model.KindRule, "delete", "Delete the rule", "deleteLoadBalancerRule"},
	{model.KindForward, "delete", "Delete the rule", "deletePortForwardingRule"},
	{model.KindAddress, "release", "Release the address", "disassociateIpAddress"},
	{model.KindNetwork, "fill", "Fill its account: no more addresses", ""},
	{model.KindNetwork, "lift", "Lift its account's limit of addresses", ""},
}

// deedsOf returns the buttons of an object.
func deedsOf(o *model.Object) (out []model.Deed) {
	for i := range deeds {
		d := &deeds[i]
		if d.kind == o.Kind && (d.command != "" || o.Group != "") {
			out = append(out, model.Deed{Name: d.name, Title: d.title})
		}
	}
	return out
}

// Do implements server.Actions.
func (p *Page) Do(ctx context.Context, object, deed string) error {
	kind, id, _ := strings.Cut(object, "/")
	for i := range deeds {
		d := &deeds[i]
		if string(d.kind) != kind || d.name != deed {
			continue
		}
		if d.command == "" {
			return p.limit(ctx, id, deed == "fill")
		}
		_, err := p.call(ctx, d.command, url.Values{"id": {id}, "expunge": {"true"}})
		return err
	}
	return fmt.Errorf("%q of %q: %w", deed, object, server.ErrUnknown)
}

// limit sets a network account's limit of public addresses to the number it has, or removes the limit.
func (p *Page) limit(ctx context.Context, network string, full bool) error {
	name := ""
	for _, n := range p.sim.Objects().Networks {
		if n.ID == network {
			name = n.Owner
		}
	}

	content, err := p.call(ctx, "listAccounts", url.Values{"listall": {"true"}, "name": {name}})
	if err != nil {
		return err
	}

	var answer struct {
		Account []struct {
			DomainID string
			IPTotal  int
		}
	}

	if err := json.Unmarshal(content, &answer); err != nil {
		return err
	}

	if len(answer.Account) == 0 {
		return fmt.Errorf("network %s has no account: limits of projects are not set here", network)
	}

	most := -1
	if a := &answer.Account[0]; full {
		most = a.IPTotal
	}

	_, err = p.call(ctx, "updateResourceLimit", url.Values{
		// resource type 1: public addresses
		"account": {name}, "domainid": {answer.Account[0].DomainID}, "resourcetype": {"1"}, "max": {fmt.Sprint(most)},
	})

	return err
}

// answer is a ResponseWriter that records the simulator's response.
type answer struct {
	bytes.Buffer
	header http.Header
}

func (a *answer) Header() http.Header { return a.header }
func (*answer) WriteHeader(int)       {}

// call makes a call as the cloud's operator and returns the content of the response. Faults that are switched on
// affect this call, too.
func (p *Page) call(ctx context.Context, command string, params url.Values) (content json.RawMessage, err error) {
	params.Set("command", command)
	params.Set("response", "json")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/client/api?"+params.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil { // a handler panics to close the connection
			err = errors.New(command + ": the connection was cut")
		}
	}()

	a := &answer{header: http.Header{}}
	p.sim.IntegrationHandler().ServeHTTP(a, r)
	var envelope map[string]json.RawMessage
	if err := json.Unmarshal(a.Bytes(), &envelope); err != nil {
		return nil, fmt.Errorf("%s: %s", command, a.String())
	}

	for _, content = range envelope {
		var failed struct {
			ErrorCode int
			ErrorText string
		}
		if json.Unmarshal(content, &failed) == nil && failed.ErrorCode != 0 {
			return nil, fmt.Errorf("%s: error %d: %s", command, failed.ErrorCode, cmp.Or(failed.ErrorText, "no text"))
		}
	}

	return content, nil
}
