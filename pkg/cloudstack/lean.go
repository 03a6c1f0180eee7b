// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"errors"
	"io"
	"net/url"

	"github.com/csccm/csccm/pkg/cloudstack/internal/lean"
)

// pager reads one page of a list; count is -1 when the answer has none, which for CloudStack means an empty list.
type pager[T any] func(ctx context.Context, c *Client, command, object string, params map[string]string) (items []T, count int, err error)

// leanPage is listPage for lists that are long: of VMs, and of the VMs that are members of a rule. CloudStack answers with
// some 2 KB for each, and has no parameter to leave anything out.
func leanPage[T any](ctx context.Context, c *Client, command, object string, params map[string]string) (items []T, count int, err error) {
	err = c.answer(ctx, command, params, func(answer io.Reader) error {
		items, count, err = lean.Page[T](answer, object, c.texts)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return items, count, nil
}

// answer makes a call and has read read its answer, again if it did not arrive as a whole.
func (c *Client) answer(ctx context.Context, command string, params map[string]string, read func(answer io.Reader) error) error {
	form := url.Values{"command": {command}, "response": {"json"}}
	for name, value := range params {
		form.Set(name, value)
	}
	if failure := c.exchange(ctx, form, read); failure != nil { // as an error, a nil *Error would not be nil
		return failure
	}
	return nil
}

// scanWhole is listWhole for a long list, of which item keeps what counts. begin is called before each attempt.
func (c *Client) scanWhole(ctx context.Context, command, object string, params map[string]string, begin func(), item func(s *lean.Scanner, count int) error) error {
	return c.answer(ctx, command, params, func(answer io.Reader) error {
		begin()
		listed := 0
		count, err := lean.Scan(answer, object, c.texts, func(s *lean.Scanner, count int) error {
			listed++
			return item(s, count)
		})
		if err == nil && count > listed {
			err = errors.New(notComplete)
		}
		return err
	})
}

// members reads the VMs behind a rule. Every drift round reads this list for each rule, so that it is scanned for the few
// texts that count.
func members(ctx context.Context, c *Client, params map[string]string) ([]LoadBalancerMember, error) {
	var out []LoadBalancerMember
	var addresses []string // of all members
	read := func(s *lean.Scanner, count int) error {
		if out == nil && count > 0 {
			n := min(count, maxMembers)
			out, addresses = make([]LoadBalancerMember, 0, n), make([]string, 0, n)
		}
		var m LoadBalancerMember
		first := len(addresses)
		err := s.Object(func(name []byte) error {
			switch string(name) {
			case "loadbalancerruleinstance":
				return s.Object(func(name []byte) (err error) {
					switch string(name) {
					case "id":
						m.VMID, err = s.String()
					case "name":
						m.Name, err = s.String()
					case "state":
						var state string
						state, err = s.String()
						m.State = VMState(state)
					}
					if err == nil && m.VMID != "" && m.Name != "" && m.State != "" {
						err = s.Rest()
					}
					return err
				})
			case "lbvmipaddresses":
				return s.Array(func() error {
					address, err := s.String()
					addresses = append(addresses, address)
					return err
				})
			}
			return nil
		})
		if len(addresses) > first {
			m.Addresses = addresses[first:len(addresses):len(addresses)]
		}
		out = append(out, m)
		return err
	}
	err := c.scanWhole(ctx, "listLoadBalancerRuleInstances", "lbrulevmidip", params, func() { out, addresses = nil, nil }, read)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// maxMembers is how many members are made room for before they are read.
const maxMembers = 5000
