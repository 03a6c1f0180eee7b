// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
	"github.com/csccm/csccm/pkg/cloudstack/internal/lean"
)

// ListAPIs lists the commands that the caller's role allows, by name. It is the exact test for features;
// the answer is large (some hundred KB, of which only names are read), so keep what it returns.
func (c *Client) ListAPIs(ctx context.Context) (map[string]API, error) {
	apis := map[string]API{}
	err := c.scanWhole(ctx, "listApis", "api", nil, func() { clear(apis) }, func(s *lean.Scanner, _ int) error {
		var a API
		err := s.Object(func(name []byte) (err error) {
			switch string(name) {
			case "name":
				a.Name, err = s.String()
			case "params":
				a.Params, err = fields(s)
			case "response":
				a.Fields, err = fields(s)
			}
			return err
		})
		apis[a.Name] = a
		return err
	})
	if err != nil {
		return nil, err
	}
	return apis, nil
}

// fields reads the names of parameters, or of the fields of an answer.
func fields(s *lean.Scanner) (out []APIField, err error) {
	err = s.Array(func() error {
		var f APIField
		err := s.Object(func(name []byte) (err error) {
			if string(name) == "name" {
				f.Name, err = s.String()
			}
			return err
		})
		out = append(out, f)
		return err
	})
	return out, err
}

// HasParam reports whether the command knows a parameter.
func (a API) HasParam(name string) bool { return hasName(a.Params, name) }

// HasField reports whether the command's answer has a field.
func (a API) HasField(name string) bool { return hasName(a.Fields, name) }

func hasName(list []APIField, name string) bool {
	return slices.ContainsFunc(list, func(f APIField) bool { return strings.EqualFold(f.Name, name) })
}

// Capabilities asks the server what it is.
func (c *Client) Capabilities(ctx context.Context) (*Capabilities, error) {
	var answer struct {
		Capability struct {
			Capabilities
			Max      flex.Int `json:"apilimitmax"`
			Interval flex.Int `json:"apilimitinterval"`
		} `json:"capability"`
	}
	if err := c.call(ctx, "listCapabilities", nil, &answer); err != nil {
		return nil, err
	}
	says := &answer.Capability.Capabilities
	says.RateMax, says.RateInterval = int(answer.Capability.Max), time.Duration(answer.Capability.Interval)*time.Second
	c.follow(says)
	return says, nil
}
