// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reasons documents the reasons of Events and conditions of Services, and of Events of Nodes.
package reasons

import (
	_ "embed"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

//go:embed reasons.yaml
var text []byte

var table = func() (t struct{ Events, NodeEvents, Conditions []plan.EventRow }) {
	if err := yaml.UnmarshalStrict(text, &t); err != nil {
		panic(err)
	}
	return t
}()

var (
	// Events are the reasons of Events on Services.
	Events = table.Events
	// NodeEvents are the reasons of Events on Nodes.
	NodeEvents = table.NodeEvents
	// Conditions are the reasons of conditions of Services that no Event has.
	Conditions = table.Conditions
)
