// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// State is what the controller works with. csccm doctor compares it with what is so. Whoever reaches the port of health
// checks may read it: it has digests in place of the cloud-config's values, and nothing of projects that Services name.
type State struct {
	Loaded  time.Time            `json:"loaded"`  // when the cloud-config was read last
	Config  map[string]string    `json:"config"`  // digests of its values, by key
	Waits   []string             `json:"waits"`   // keys whose new values take effect when the controller restarts
	Project string               `json:"project"` // the ID of the configured project
	Refused map[string]time.Time `json:"refused"` // commands that the role refused, with the time of the answer
}

// use notes the cloud-config that the client works with from now on.
func (p *Provider) use(cfg *cloudstack.Config) {
	p.state.Store(&State{Loaded: p.options.Clock.Now(), Config: cfg.Digests(), Waits: p.config.NeedsRestart(cfg)})
}

// State returns what the controller works with now. It makes no API call.
func (p *Provider) State() State {
	s := *p.state.Load()
	s.Project = p.inventory.KnownProjectID()
	s.Refused = p.client.Role().Refused(s.Project)
	return s
}
