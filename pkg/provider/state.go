// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// State is the configuration that the controller uses now. csccm doctor compares it with the cloud-config. Everyone who
// can reach the health check port can read it, so it contains digests instead of the cloud-config's values, and nothing
// about projects that Services name.
type State struct {
	Loaded  time.Time            `json:"loaded"`  // when the cloud-config was read last
	Config  map[string]string    `json:"config"`  // digests of its values, by key
	Waits   []string             `json:"waits"`   // keys whose new values take effect when the controller restarts
	Project string               `json:"project"` // the ID of the configured project
	Refused map[string]time.Time `json:"refused"` // commands that the role refused, with the time of the answer
}

// use records the cloud-config that the client has just adopted.
func (p *Provider) use(cfg *cloudstack.Config) {
	p.state.Store(&State{Loaded: p.options.Clock.Now(), Config: cfg.Digests(), Waits: p.config.NeedsRestart(cfg)})
}

// State returns the configuration that the controller uses now. It makes no API call.
func (p *Provider) State() State {
	s := *p.state.Load()
	s.Project = p.inventory.KnownProjectID()
	s.Refused = p.client.Role().Refused(s.Project)
	return s
}
